# SPDX-License-Identifier: Apache-2.0
"""A reference startup plan for vLLM, and the suite that judges any implementation of one.

The functions have the names and the behaviour of `vllm/v1/worker/startup_plan.py`, so that this
package can stand in its place. Importing it imports neither torch nor vLLM.
"""

from __future__ import annotations

from .reference import (
    PLAN_SCHEMA_VERSION,
    Memory,
    NoPlanError,
    Plan,
    _applicable_kv_cache_memory_bytes,
    _load_plan,
    _plan_path,
    compute_plan_fingerprint,
    maybe_apply_startup_plan,
    maybe_save_startup_plan,
)
from .version import __version__ as __version__

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
