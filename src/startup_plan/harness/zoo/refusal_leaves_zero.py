# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a refused plan leaves 0 in the configuration."""

from __future__ import annotations

from startup_plan.harness.zoo import seed

seed(
    globals(),
    (
        "        if kv_bytes is None:\n            return verdict\n",
        (
            "        if kv_bytes is None:\n"
            '            if verdict.startswith("refused"):\n'
            "                worker.cache_config.kv_cache_memory_bytes = 0\n"
            "            return verdict\n"
        ),
    ),
)
