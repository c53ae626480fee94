# SPDX-License-Identifier: Apache-2.0
"""A subject without a gate: a plan is applied whatever the memory is, and whatever the budget.

It takes a plan for a setting: once measured, it holds. It is no entry of the zoo, because it breaks
whatever is judged with two boots: the second applies, so that nothing is measured or saved.
"""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    ("if free < baseline:", "if False:"),
    ("if kv_bytes > min(baseline, free, budget):", "if False:"),
    (
        '    "CacheConfig": """\n',
        '    "CacheConfig": """\n        gpu_memory_utilization\n',
    ),
)
