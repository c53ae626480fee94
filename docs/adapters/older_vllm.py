# SPDX-License-Identifier: Apache-2.0
"""An adapter for a startup plan whose look-up takes five arguments and that cannot save.

    startup-plan gate older_plan.py --adapter docs/adapters/older_vllm.py

Its look-up is given a folder, the configuration, the rank, the number of ranks and the free memory
in bytes, and returns the size of the KV cache in bytes, or None. Asking whether the feature is on,
and writing the plan, was the worker's part there, so it is done here.
"""

from __future__ import annotations

import json
import os
from typing import Any

import startup_plan_subject as subject
from vllm import envs

compute_plan_fingerprint = subject.compute_plan_fingerprint


def maybe_apply_startup_plan(worker: Any) -> None:
    """Called by the worker before it measures."""
    if not envs.VLLM_ENABLE_STARTUP_PLAN or worker.cache_config.kv_cache_memory_bytes is not None:
        return
    config, ranks = worker.vllm_config, worker.parallel_config.world_size
    free = worker.init_snapshot.free_memory
    size = subject.maybe_apply_startup_plan(_folder(), config, worker.rank, ranks, free)
    if size is not None:
        worker.cache_config.kv_cache_memory_bytes = size


def maybe_save_startup_plan(worker: Any, kv_cache_memory_bytes: int) -> None:
    """Called by the worker after it measured, with what fitted, in bytes."""
    if not envs.VLLM_ENABLE_STARTUP_PLAN:
        return
    ranks = worker.parallel_config.world_size
    key = compute_plan_fingerprint(worker.vllm_config, worker.rank, ranks)
    plan = {
        "schema": subject.PLAN_SCHEMA_VERSION,
        "fingerprint": key,
        "kv_cache_memory_bytes": kv_cache_memory_bytes,
        "free_memory_baseline": worker.init_snapshot.free_memory,
    }
    os.makedirs(_folder(), exist_ok=True)
    with open(os.path.join(_folder(), f"startup_plan_{key}.json"), "w", encoding="ascii") as file:
        json.dump(plan, file)


def _folder() -> str:
    return os.path.join(envs.VLLM_CACHE_ROOT, "startup_plan")
