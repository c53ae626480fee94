# SPDX-License-Identifier: Apache-2.0
"""`torch` as far as versions, devices and memory figures go."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from . import tensors
from .state import active
from .unknown import refuse
from .worker import StubDevice

if TYPE_CHECKING:
    from collections.abc import Callable


class TorchModule(ModuleType):
    """`torch` as far as versions, devices and memory figures go."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        """The meaning of a name of `torch`."""
        if name in TORCH:
            return TORCH[name]()
        if name == active().runtime.backend:
            return _accelerator()
        raise refuse("torch", name)


class TorchVersion(ModuleType):
    """`torch.version`."""

    def __getattr__(self, name: str) -> str | None:
        """A version, None where torch was built for something else."""
        runtime = active().runtime
        if name == "__version__":
            return runtime.torch
        if name in {"cuda", "hip", "xpu"}:
            found: str | None = getattr(runtime, name)
            return found
        raise AttributeError(name)


def _torch_version() -> str:
    simulation = active()
    if "torch_version" in simulation.broken:
        raise RuntimeError("simulated: the version of torch cannot be read")
    return simulation.runtime.torch


def index_of(device: Any) -> int | None:
    """The number of a device that is given as torch gives it, or as a number."""
    index: int | None = getattr(device, "index", device)
    return index


def _properties(device: Any = None) -> SimpleNamespace:
    found = active().asked("device_name", index_of(device))
    major, minor = found.capability or (0, 0)
    return SimpleNamespace(
        name=found.name, total_memory=found.total, major=major, minor=minor, multi_processor_count=1
    )


def _memory_info(device: Any = None) -> tuple[int, int]:
    found = active().asked("memory", index_of(device))
    return (found.free, found.total)


ACCELERATOR: Final[dict[str, Callable[..., Any]]] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: len(active().devices),
    "current_device": lambda: active().current_device,
    "current_device_index": lambda: active().current_device,
    "current_accelerator": lambda: StubDevice(active().runtime.backend, None),
    "get_device_properties": _properties,
    "get_device_name": lambda device=None: _properties(device).name,
    "get_device_capability": lambda device=None: (
        active().asked("device_capability", index_of(device)).capability
    ),
    "mem_get_info": _memory_info,
    "get_memory_info": _memory_info,
}
"""What torch has for a device, by name; all of it answers from the active simulation."""


def _accelerator() -> SimpleNamespace:
    return SimpleNamespace(**ACCELERATOR)


TORCH: Final[dict[str, Callable[[], Any]]] = {
    "__version__": _torch_version,
    "version": lambda: sys.modules["torch.version"],
    "device": lambda: StubDevice,
    "accelerator": _accelerator,
    "cuda": _accelerator,
    "distributed": lambda: importlib.import_module("torch.distributed"),
    **{name: functools.partial(tensors.SURFACE.get, name) for name in tensors.SURFACE},
}
