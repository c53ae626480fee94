# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the budget is the whole device."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "    utilization = float(worker.cache_config.gpu_memory_utilization)\n"
            "    return math.ceil(_whole(worker.init_snapshot.total_memory) * utilization)"
        ),
        "    return _whole(worker.init_snapshot.total_memory)",
    ),
)
