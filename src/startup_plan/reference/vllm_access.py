# SPDX-License-Identifier: Apache-2.0
"""The few things this package asks of vLLM, looked up when they are needed and never before.

Nothing here is imported at module level, so that `import startup_plan` pulls in neither vLLM nor
torch, and so that the same code runs against the real objects and against simulated ones.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, Final

_HOMES: Final = {
    "envs": ("vllm.envs", "vllm.foundation.system.envs"),
    "platforms": ("vllm.platforms", "vllm.backends.platform"),
    "logger": ("vllm.logger", "vllm.foundation.logger"),
    "groups": ("vllm.distributed.parallel_state", "vllm.distributed"),
}
"""Where vLLM has kept each module, newest release first; upstream has moved them before."""


def _module(name: str) -> Any:
    first, *others = _HOMES[name]
    try:
        return importlib.import_module(first)
    except ModuleNotFoundError as error:
        for home in others:
            try:
                return importlib.import_module(home)
            except ModuleNotFoundError:
                continue
        raise error from None


def envs() -> Any:
    """The module of environment variables of vLLM."""
    return _module("envs")


def platform() -> Any:
    """The `current_platform` of vLLM."""
    return _module("platforms").current_platform


def world_group() -> Any:
    """The coordinator of all ranks of the engine.

    Raises:
        AssertionError: vLLM has made no groups in this process.
    """
    return _module("groups").get_world_group()


def version() -> str:
    """The version of vLLM."""
    return str(importlib.import_module("vllm").__version__)


def logger() -> logging.Logger:
    """A logger below vLLM's own, so that its lines appear wherever the engine's lines do."""
    try:
        made: logging.Logger = _module("logger").init_logger("vllm.startup_plan")
    except ModuleNotFoundError:
        return logging.getLogger("vllm.startup_plan")
    return made
