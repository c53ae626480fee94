# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: what killed saves leave behind is never removed."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    with contextlib.suppress(Exception):\n        _sweep(folder)\n",
        "",
    ),
)
