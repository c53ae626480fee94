# SPDX-License-Identifier: Apache-2.0
"""The least that a subject is made of: it never applies a plan, saves none and raises nothing."""

from __future__ import annotations

from typing import Final

IDLE_PLAN: Final = """
def compute_plan_fingerprint(vllm_config, rank, world_size):
    return "0" * 16

def maybe_apply_startup_plan(worker):
    pass

def maybe_save_startup_plan(worker, kv_cache_memory_bytes):
    pass
"""
"""The text of its module."""
