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
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final, final

from .distributed import DistributedModule
from .state import active
from .torch_module import TORCH, TorchModule, TorchVersion
from .unknown import refuse
from .vllm_module import EnvsModule, StubModule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOTS: Final = ("torch", "torch_npu", "vllm")
_ACCELERATOR_PACKAGES: Final = re.compile(
    r"(py)?torch|triton|nvidia|flashinfer|deep_|aiter|amd|intel_ext|habana|xla|cuda|rocm"
    r"|xformers|transformers|vllm|ascend|.*npu|.*nccl",
    re.IGNORECASE,
)


class _NpuModule(ModuleType):
    def __getattr__(self, name: str) -> str:
        if name == "__version__" and active().runtime.npu is not None:
            return str(active().runtime.npu)
        raise refuse("torch_npu", name)


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
        if root == "torch" and rest and rest.split(".")[0] not in TORCH:
            raise ModuleNotFoundError(str(refuse("torch", rest)), name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The stub for one module path."""
        name = spec.name
        if name == "torch.version":
            return TorchVersion(name)
        if name == "torch.distributed" or name.startswith("torch.distributed."):
            return DistributedModule(name)
        if name.startswith("torch."):
            module = ModuleType(name)
            vars(module).update(vars(TORCH[name.split(".")[1]]()))
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
