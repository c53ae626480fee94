# SPDX-License-Identifier: Apache-2.0
"""The reference: a startup plan that keeps the contract.

The functions have the names and the behaviour of `vllm/v1/worker/startup_plan.py`. Importing it
imports neither torch nor vLLM.
"""

from __future__ import annotations

from .bounds import Memory
from .plan import PLAN_SCHEMA_VERSION, NoPlanError, Plan
from .worker import (
    _applicable_kv_cache_memory_bytes,
    _load_plan,
    _plan_path,
    compute_plan_fingerprint,
    maybe_apply_startup_plan,
    maybe_save_startup_plan,
)

__all__ = [  # noqa: RUF022  # the public names first, then those of vLLM that begin with _
    "PLAN_SCHEMA_VERSION",
    "NoPlanError",
    "Memory",
    "Plan",
    "_applicable_kv_cache_memory_bytes",
    "_load_plan",
    "_plan_path",
    "compute_plan_fingerprint",
    "maybe_apply_startup_plan",
    "maybe_save_startup_plan",
]
