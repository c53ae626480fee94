# SPDX-License-Identifier: Apache-2.0
"""`torch` as far as versions, devices and memory figures go."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from . import tensors
from .backends import BACKENDS
from .state import active
from .unknown import refuse
from .worker import StubDevice

if TYPE_CHECKING:
    from collections.abc import Callable

_IN_EVERY_BUILD: Final = ("cuda", "mps", "mtia", "xpu")
"""Modules of accelerators that torch has in every build, of use or not."""

_BROUGHT: Final = {backend.type for backend in BACKENDS.values()}


_OF_JAX: Final = "tpu"
"""A type of vLLM's that is none of torch's."""


def is_of_torch(name: str) -> bool:
    """Whether `torch.NAME` may be imported."""
    return name in {*TORCH, *_IN_EVERY_BUILD} or (
        name == active().runtime.backend.type and name != _OF_JAX
    )


class TorchModule(ModuleType):
    """The module itself."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        """The meaning of a name of `torch`."""
        if name in TORCH:
            return TORCH[name]()
        if name == active().runtime.backend.type and name != _OF_JAX:
            return accelerator()
        if name in _IN_EVERY_BUILD:
            return _absent(name)
        if name in _BROUGHT:
            # Real torch has no such name either, unless the package of that backend is installed.
            raise AttributeError(f"module 'torch' has no attribute {name!r}")
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
    if isinstance(device, str):
        device = StubDevice(device)
    index: int | None = getattr(device, "index", device)
    return index


def _properties(device: Any = None) -> SimpleNamespace:
    simulation = active()
    try:
        found = simulation.seen("device_name", index_of(device))
    except IndexError:
        raise AssertionError("Invalid device id") from None
    major, minor = simulation.rating(found) or (0, 0)
    return SimpleNamespace(
        name=found.name,
        total_memory=found.total,
        major=major,
        minor=minor,
        multi_processor_count=1,
        uuid=simulation.uuid(found),
    )


def _capability(device: Any = None) -> tuple[int, int] | None:
    simulation = active()
    try:
        return simulation.rating(simulation.seen("device_capability", index_of(device)))
    except IndexError:
        raise AssertionError("Invalid device id") from None


def _memory_info(device: Any = None) -> tuple[int, int]:
    try:
        return active().memory(index_of(device))
    except IndexError:
        raise RuntimeError("simulated: invalid device ordinal") from None


def _current_device() -> int:
    chosen = active().current_device
    if chosen < 0:
        raise RuntimeError("simulated: this process has not initialised a device")
    return chosen


ACCELERATOR: Final[dict[str, Callable[..., Any]]] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: len(active().numbering().visible()),
    "current_device": _current_device,
    "current_device_index": _current_device,
    "current_accelerator": lambda: StubDevice(active().runtime.backend.device_type, None),
    "get_device_properties": _properties,
    "get_device_name": lambda device=None: _properties(device).name,
    "get_device_capability": _capability,
    "mem_get_info": _memory_info,
    "get_memory_info": _memory_info,
}
"""What torch has for a device, by name; all of it answers from the active simulation."""


def accelerator() -> SimpleNamespace:
    """What torch has for the devices of the active simulation."""
    return SimpleNamespace(**ACCELERATOR)


def _any_accelerator() -> SimpleNamespace:
    """`torch.accelerator`, which knows nothing of torch_xla."""
    return _absent("xla") if active().runtime.backend.name == "tpu" else accelerator()


def _cuda() -> SimpleNamespace:
    # torch_musa serves torch.cuda as well, so that CUDA code runs unchanged.
    serves = active().runtime.backend.alike
    return accelerator() if serves else _absent("cuda")


def _absent(kind: str) -> SimpleNamespace:
    """The module of an accelerator for which this torch is not built."""

    def refused(*_arguments: object, **_options: object) -> None:
        raise AssertionError(f"Torch not compiled with {kind.upper()} enabled")

    answers: dict[str, Callable[..., Any]] = dict.fromkeys(ACCELERATOR, refused)
    answers |= {
        "is_available": lambda: False,
        "is_initialized": lambda: False,
        "device_count": lambda: 0,
        "current_accelerator": lambda: None,
    }
    return SimpleNamespace(**answers)


TORCH: Final[dict[str, Callable[[], Any]]] = {
    "__version__": _torch_version,
    "version": lambda: sys.modules["torch.version"],
    "device": lambda: StubDevice,
    "accelerator": _any_accelerator,
    "cuda": _cuda,
    "distributed": lambda: importlib.import_module("torch.distributed"),
    **{name: functools.partial(tensors.SURFACE.get, name) for name in tensors.SURFACE},
}
