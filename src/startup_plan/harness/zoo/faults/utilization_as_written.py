# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the memory budget enters the key as it was written."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '_AS_FLOAT: Final = ("gpu_memory_utilization",)',
        "_AS_FLOAT: Final[tuple[str, ...]] = ()",
    ),
)
