# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan is applied whatever the memory is, and whatever the budget."""

from __future__ import annotations

from startup_plan.harness.zoo import seed

seed(
    globals(),
    ("if free < baseline:", "if False:"),
    ("if kv_bytes > min(baseline, free, budget):", "if False:"),
    (
        '    "CacheConfig": """\n',
        '    "CacheConfig": """\n        gpu_memory_utilization\n',
    ),
)
