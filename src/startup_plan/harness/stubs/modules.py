# SPDX-License-Identifier: Apache-2.0
"""The little of vLLM and torch that a subject touches, when the real ones are not to be used.

Upstream has moved these names between modules more than once. So the finder here accepts any module
path below `vllm` and gives each *name* its meaning, wherever it is asked for. A name without a
meaning is refused with a sentence that names it: a subject must not be judged on a guess.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from . import torch_module, vllm_module
from .backends import BACKENDS
from .distributed import DistributedModule
from .state import active
from .torch_module import TorchModule, TorchVersion, is_of_torch
from .unknown import refuse
from .vllm_module import EnvsModule, StubModule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PACKAGES: Final = {backend.package for backend in BACKENDS.values()} - {""}
_TORCH_FILE: Final = os.path.abspath(torch_module.__file__)
_VLLM_FILE: Final = os.path.abspath(vllm_module.__file__)
_DISTRIBUTIONS: Final = {backend.distribution for backend in BACKENDS.values()} - {""}
ROOTS: Final = ("torch", *sorted(_PACKAGES), "vllm")
_ACCELERATOR_PACKAGES: Final = re.compile(
    r"(py)?torch|triton|nvidia|flashinfer|deep_|aiter|amd|intel_ext|habana|xla|cuda|rocm"
    r"|xformers|transformers|vllm|ascend|.*npu|.*nccl",
    re.IGNORECASE,
)


class _RuntimeModule(ModuleType):
    """The package that brings the runtime of an accelerator of which torch knows no version."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        """Its version, and what it adds to torch."""
        runtime = active().runtime
        if name == "__version__":
            return runtime.packaged
        if name == runtime.backend.type:
            return getattr(importlib.import_module("torch"), name)
        raise refuse(self.__name__, name)


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
        if root in _PACKAGES and root != active().runtime.backend.package:
            return None
        if root == "torch" and rest and not is_of_torch(rest.split(".")[0]):
            raise ModuleNotFoundError(str(refuse("torch", rest)), name=fullname)
        # A file that is there, as that of any package is: a subject may look at it.
        file = _TORCH_FILE if root == "torch" else _VLLM_FILE
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=file, is_package=True)
        spec.has_location = True
        spec.submodule_search_locations = [os.path.dirname(file)]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The stub for one module path."""
        name = spec.name
        if name == "torch.version":
            return TorchVersion(name)
        if name == "torch.distributed" or name.startswith("torch.distributed."):
            return DistributedModule(name)
        if name.startswith("torch."):
            module = ModuleType(name)
            vars(module).update(vars(getattr(sys.modules["torch"], name.split(".")[1])))
            return module
        if name == "torch":
            return TorchModule(name)
        if name.partition(".")[0] in _PACKAGES:
            return _RuntimeModule(name)
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
    ours = {"vllm": runtime.vllm, "torch": runtime.torch, **dict.fromkeys(_DISTRIBUTIONS)}
    ours[runtime.backend.distribution] = runtime.packaged
    found = ours[plain] if plain in ours else runtime.libraries.get(plain)
    if found is not None:
        return found
    if plain in ours or _ACCELERATOR_PACKAGES.match(plain):
        raise importlib.metadata.PackageNotFoundError(distribution_name)
    return _real_version(distribution_name)


_real_version: Final = importlib.metadata.version


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let `vllm`, `torch` and what brings a backend mean the stubs until the end."""
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
