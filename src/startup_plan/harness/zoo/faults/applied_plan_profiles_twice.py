# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a boot that applies a plan runs the model twice."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        worker.cache_config.kv_cache_memory_bytes = kv_bytes\n",
        (
            "        worker.model_runner.profile_run()\n"
            "        worker.cache_config.kv_cache_memory_bytes = kv_bytes\n"
        ),
    ),
)
