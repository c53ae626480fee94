# SPDX-License-Identifier: Apache-2.0
"""An adapter for a module that patches vLLM's startup plan when it is imported.

startup-plan gate hook_to_judge.py --on vllm-0.33.0-….whl --adapter docs/adapters/hook.py
"""

import startup_plan_subject  # noqa: F401  # importing it is what patches
from vllm.v1.worker.startup_plan import (
    compute_plan_fingerprint,
    maybe_apply_startup_plan,
    maybe_save_startup_plan,
)

__all__ = ["compute_plan_fingerprint", "maybe_apply_startup_plan", "maybe_save_startup_plan"]
