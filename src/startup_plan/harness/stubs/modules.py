# SPDX-License-Identifier: Apache-2.0
"""The little of vLLM and torch that a subject touches, when the real ones are not to be used.

Upstream has moved these names between modules more than once. So the finder here accepts any module
path below `vllm` and gives each *name* its meaning, wherever it is asked for. A name without a
meaning is refused with a sentence that names it: a subject must not be judged on a guess.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, final

from . import configs as stub_configs
from .log import keep_line
from .state import active
from .units import GIB
from .worker import DeviceCapability, MemorySnapshot, SimulatedWorker, StubDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOTS: Final = ("torch", "torch_npu", "vllm")
_ACCELERATOR_PACKAGES: Final = re.compile(
    r"(py)?torch|triton|nvidia|flashinfer|deep_|aiter|amd|intel_ext|habana|xla|cuda|rocm"
    r"|xformers|transformers|vllm|ascend|.*npu|.*nccl",
    re.IGNORECASE,
)

unknown_names: list[str] = []
"""What subjects asked for and could not be given, as sentences, since somebody emptied this."""


class UnknownNameError(AttributeError):
    """A subject asked for a name of vLLM or torch that the simulation gives no meaning to."""


def _refuse(module: str, name: str) -> UnknownNameError:
    sentence = (
        f"it asks {module} for {name!r}, to which the simulated vLLM gives no meaning "
        "(add it to the providers in harness/stubs/modules.py, or judge it where vLLM is installed)"
    )
    if not (name.startswith("__") and name.endswith("__")):
        unknown_names.append(sentence)
    return UnknownNameError(sentence)


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


@final
class StubPlatform:
    """`current_platform`: per-device queries that answer from the active simulation."""

    device_name = property(lambda _: active().runtime.backend)
    device_type = property(lambda _: active().runtime.backend)
    dispatch_key = "CUDA"
    device_control_env_var = "CUDA_VISIBLE_DEVICES"
    dist_backend = "nccl"

    def get_device_name(self, device_id: int = 0) -> str:
        """Product name of a device; of device 0 unless told otherwise, as in vLLM."""
        return active().asked("device_name", device_id).name

    def get_device_total_memory(self, device_id: int = 0) -> int:
        """Memory of a device in bytes; of device 0 unless told otherwise."""
        return active().asked("device_total_memory", device_id).total

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        """Compute capability of a device; of device 0 unless told otherwise."""
        found = active().asked("device_capability", device_id).capability
        return None if found is None else DeviceCapability(*found)

    def get_device_uuid(self, device_id: int = 0) -> str:
        """A name that tells two equal devices apart."""
        active().asked("device_uuid", device_id)
        return f"GPU-{device_id:08d}"

    def is_cuda(self) -> bool:
        """Whether this is an NVIDIA build."""
        return active().runtime.cuda is not None

    def is_rocm(self) -> bool:
        """Whether this is a ROCm build."""
        return active().runtime.hip is not None

    def is_cuda_alike(self) -> bool:
        """Whether torch's cuda interface serves this build."""
        return self.is_cuda() or self.is_rocm()

    def is_xpu(self) -> bool:
        """Whether this is an Intel GPU build."""
        return active().runtime.xpu is not None

    def is_out_of_tree(self) -> bool:
        """Whether a plugin brings the platform."""
        return active().runtime.npu is not None

    def is_cpu(self) -> bool:
        """Never: plans are kept for accelerators."""
        return False

    def is_tpu(self) -> bool:
        """Never, as `is_cpu`."""
        return False

    def is_integrated_gpu(self, device_id: int = 0) -> bool:
        """Never: the simulated devices have memory of their own."""
        active().asked("integrated", device_id)
        return False

    def __getattr__(self, name: str) -> Any:
        """What torch has for the device under that name, or None, as vLLM's answers."""
        if name.startswith("__"):
            raise AttributeError(name)
        return ACCELERATOR.get(name)


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
        raise _refuse(self.__name__, name)

    def __call__(self, *_arguments: object, **_options: object) -> Any:
        """Refuse: what was imported as a name turned out to be no more than a module path."""
        parent, _, leaf = self.__name__.rpartition(".")
        raise _refuse(parent, leaf)


@final
class EnvsModule(StubModule):
    """`vllm.envs`: registered variables, read from the environment at each access."""

    def __getattr__(self, name: str) -> Any:
        """The value of a registered variable, or AttributeError as from the real module."""
        if name == "environment_variables":
            return {key: (lambda key=key: _variable(key)) for key in _REGISTERED}
        if name == "compile_factors":
            return lambda: {
                v.name: _variable(v.name) for v in stub_configs.VARIABLES if v.in_compile_factors
            }
        if name == "is_set":
            return lambda key: key in os.environ
        if name not in _REGISTERED:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _variable(name)


def _variable(name: str) -> Any:
    raw = os.environ.get(name)
    if name == "VLLM_CACHE_ROOT":
        return os.path.expanduser(raw or "~/.cache/vllm")
    if name == "VLLM_ENABLE_STARTUP_PLAN":
        return bool(int(raw or "0"))
    return _REGISTERED[name].parse(raw)


_REGISTERED: Final = {v.name: v for v in stub_configs.VARIABLES}


class TorchModule(ModuleType):
    """`torch` as far as versions, devices and memory figures go."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        """The meaning of a name of `torch`."""
        if name in _TORCH:
            return _TORCH[name]()
        if name == active().runtime.backend:
            return _accelerator()
        raise _refuse("torch", name)


class _TorchVersion(ModuleType):
    def __getattr__(self, name: str) -> str | None:
        runtime = active().runtime
        if name == "__version__":
            return runtime.torch
        if name in {"cuda", "hip", "xpu"}:
            found: str | None = getattr(runtime, name)
            return found
        raise AttributeError(name)


class _NpuModule(ModuleType):
    def __getattr__(self, name: str) -> str:
        if name == "__version__" and active().runtime.npu is not None:
            return str(active().runtime.npu)
        raise _refuse("torch_npu", name)


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


def _distributed() -> SimpleNamespace:
    return SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)


def _group() -> SimpleNamespace:
    return SimpleNamespace(rank=0, rank_in_group=0, world_size=1, is_last_rank=True)


_TORCH: Final[dict[str, Callable[[], Any]]] = {
    "__version__": _torch_version,
    "version": lambda: sys.modules["torch.version"],
    "device": lambda: StubDevice,
    "accelerator": _accelerator,
    "cuda": _accelerator,
    "distributed": _distributed,
    "Tensor": lambda: type("Tensor", (), {}),
}


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
    "get_world_group": lambda: _group,
    "get_tp_group": lambda: _group,
    "get_pp_group": lambda: _group,
    "get_dp_group": lambda: _group,
}
"""Name -> what it means, in whatever module of vLLM a subject looks for it."""


@final
class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves any module path below the stubbed packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for `fullname` if it is ours to serve."""
        del path, target
        root, _, rest = fullname.partition(".")
        if root not in ROOTS:
            return None
        if root == "torch_npu" and active().runtime.npu is None:
            return None
        if root == "torch" and rest and rest.split(".")[0] not in _TORCH:
            raise ModuleNotFoundError(str(_refuse("torch", rest)), name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The stub for one module path."""
        name = spec.name
        if name == "torch.version":
            return _TorchVersion(name)
        if name.startswith("torch."):
            module = ModuleType(name)
            vars(module).update(vars(_TORCH[name.split(".")[1]]()))
            return module
        if name == "torch":
            return TorchModule(name)
        if name == "torch_npu":
            return _NpuModule(name)
        return EnvsModule(name) if name.endswith(".envs") else StubModule(name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run; `torch` brings `torch.version` with it."""
        if module.__name__ == "torch":
            importlib.import_module("torch.version")


def _version(distribution_name: str) -> str:
    """`importlib.metadata.version` as a host with the simulated software would answer."""
    simulation = active()
    if "libraries" in simulation.broken:
        raise RuntimeError("simulated: installed distributions cannot be listed")
    runtime, plain = simulation.runtime, distribution_name.lower().replace("-", "_")
    ours = {"vllm": runtime.vllm, "torch": runtime.torch, "torch_npu": runtime.npu}
    found = ours[plain] if plain in ours else runtime.libraries.get(plain)
    if found is not None:
        return found
    if plain in ours or _ACCELERATOR_PACKAGES.match(plain):
        raise importlib.metadata.PackageNotFoundError(distribution_name)
    return _real_version(distribution_name)


_real_version: Final = importlib.metadata.version


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let `vllm`, `torch` and `torch_npu` mean the stubs, whatever is installed, until the end."""
    real = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    finder = StubFinder()
    sys.meta_path.insert(0, finder)
    importlib.metadata.version = _version
    try:
        yield
    finally:
        importlib.metadata.version = _real_version
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(real)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ROOTS
