# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the memory budget is not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '    "CacheConfig": """\n',
        '    "CacheConfig": """\n        gpu_memory_utilization\n',
    ),
)
