# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a write that took only part of the data counts as done."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        _write(descriptor, data)\n",
        "        os.write(descriptor, data)\n",
    ),
)
