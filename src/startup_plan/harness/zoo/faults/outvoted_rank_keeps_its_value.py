# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a rank that was outvoted keeps its value."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if _is_grouped(worker.parallel_config):\n",
        (
            "        worker.cache_config.kv_cache_memory_bytes = kv_bytes\n"
            "        if _is_grouped(worker.parallel_config):\n"
        ),
    ),
)
