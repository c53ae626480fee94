# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the device is asked before anybody knows whether plans are on."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    if not _enabled():\n        return\n    boot = _Boot()\n",
        "    boot = _Boot()\n    boot.identify(worker)\n    if not _enabled():\n        return\n",
    ),
)
