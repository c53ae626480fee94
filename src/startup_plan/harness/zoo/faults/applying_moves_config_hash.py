# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: applying a plan changes the config hash."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        worker.cache_config.kv_cache_memory_bytes = kv_bytes\n",
        (
            "        worker.cache_config.kv_cache_memory_bytes = kv_bytes\n"
            '        worker.vllm_config.additional_config = {"startup_plan": self.key}\n'
        ),
    ),
)
