# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: an explicit value of 0 counts as none."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if worker.cache_config.kv_cache_memory_bytes is not None:\n",
        "        if worker.cache_config.kv_cache_memory_bytes:\n",
    ),
)
