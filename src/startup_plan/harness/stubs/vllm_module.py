# SPDX-License-Identifier: Apache-2.0
"""Modules below `vllm`: whatever their path, each name has its meaning."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from . import configs as stub_configs
from . import coordinators
from .log import keep_line
from .platform import StubPlatform
from .state import active
from .units import GIB
from .unknown import refuse
from .worker import DeviceCapability, MemorySnapshot, SimulatedWorker

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class StubLogger:
    """A logger that keeps its lines in the active simulation."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        """Remember the name only; lines belong to the simulation."""
        self.name = name

    def __getattr__(self, method: str) -> Callable[..., None]:
        """`info`, `warning_once` and the rest: one line each, formatted as logging would."""
        level = method.removesuffix("_once")
        if level == "log":
            return lambda _level, message, *args, **_: _keep("info", message, args)
        if level not in {"debug", "info", "warning", "error", "exception", "critical"}:
            raise AttributeError(method)
        return lambda message, *args, **_: _keep(level, message, args)


def _keep(level: str, message: object, args: tuple[object, ...]) -> None:
    text = str(message)
    with contextlib.suppress(TypeError, ValueError):
        text = text % args if args else text
    keep_line(active().log, level, text)


class StubModule(ModuleType):
    """A module below `vllm` whose names are given their meaning on demand."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        """The meaning of `name`, wherever it is asked for."""
        if name in PROVIDERS:
            return PROVIDERS[name]()
        found = stub_configs.config_classes().get(name)
        if found is not None:
            return found
        raise refuse(self.__name__, name)

    def __call__(self, *_arguments: object, **_options: object) -> Any:
        """Refuse: what was imported as a name turned out to be no more than a module path."""
        parent, _, leaf = self.__name__.rpartition(".")
        raise refuse(parent, leaf)


@final
class EnvsModule(StubModule):
    """`vllm.envs`: registered variables, read from the environment at each access."""

    def __getattr__(self, name: str) -> Any:
        """The value of a registered variable, or AttributeError as from the real module."""
        if name == "environment_variables":
            return {key: (lambda key=key: _variable(key)) for key in REGISTERED}
        if name == "compile_factors":
            return lambda: {
                v.name: _variable(v.name) for v in stub_configs.VARIABLES if v.in_compile_factors
            }
        if name == "is_set":
            return lambda key: key in os.environ
        if name not in REGISTERED:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _variable(name)


def _variable(name: str) -> Any:
    raw = os.environ.get(name)
    if name == "VLLM_CACHE_ROOT":
        return os.path.expanduser(raw or "~/.cache/vllm")
    if name == "VLLM_ENABLE_STARTUP_PLAN":
        return bool(int(raw or "0"))
    return REGISTERED[name].parse(raw)


REGISTERED: Final = {v.name: v for v in stub_configs.VARIABLES}
"""Variables that vLLM registers, by name."""


def _vllm_version() -> str:
    simulation = active()
    if "vllm_version" in simulation.broken:
        raise RuntimeError("simulated: the version of vLLM cannot be read")
    return simulation.runtime.vllm


_PLATFORM: Final = StubPlatform()

PROVIDERS: Final[dict[str, Callable[[], Any]]] = {
    "__version__": _vllm_version,
    "envs": lambda: importlib.import_module("vllm.envs"),
    "current_platform": lambda: _PLATFORM,
    "Platform": lambda: StubPlatform,
    "DeviceCapability": lambda: DeviceCapability,
    "init_logger": lambda: StubLogger,
    "logger": lambda: StubLogger("vllm"),
    "MemorySnapshot": lambda: MemorySnapshot,
    "Worker": lambda: SimulatedWorker,
    "WorkerBase": lambda: SimulatedWorker,
    "GiB_bytes": lambda: GIB,
    "format_gib": lambda: lambda number: f"{round(number / GIB, 2)}",
    "safe_hash": lambda: lambda data, **_: hashlib.md5(data, usedforsecurity=False),
    **coordinators.PROVIDED,
}
"""Name -> what it means, in whatever module of vLLM a subject looks for it."""
