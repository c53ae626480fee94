# SPDX-License-Identifier: Apache-2.0
"""The kinds of accelerator that a simulated world can be made of, and what their platforms say.

CUDA, ROCm and XPU answer as `vllm/platforms/{cuda,rocm,xpu}.py` of 0.33.0 do; the others are
plugins and answer as those: vllm-ascend (NPU), vllm-musa, vllm-gaudi (HPU), tpu-inference. They
differ in how they count: `logical` is vLLM's own number (a local rank), `visible` is torch's,
`card` the driver's, which knows nothing of either.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

Counted: TypeAlias = Literal["logical", "visible", "card", "first", "backend", "none", "refused"]
"""By which number a query takes a device: `first` answers for the first card whatever was asked,
`backend` says what the backend is called, `none` answers None, `refused` is NotImplementedError."""

VARIABLE: Final = "SIMULATED_BACKEND"
"""Carries the choice to every process of a run, also to those that are started within a world."""


class UnknownBackendError(ValueError):
    """No backend has this name; one sentence says which there are."""


@final
@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of accelerator.

    Attributes:
        name: how people ask for it; also the attribute of `Runtime` with the runtime's version.
        release: that version, unless a test says otherwise.
        product: what its devices are called.
        kind: the name of its member of vLLM's `PlatformEnum`.
        platform: what its platform calls itself.
        type: `device_type` of its platform, and the module of torch that serves it.
        device: the type of `worker.device`, where that is another.
        dispatch: torch's dispatch key.
        communicator: its `dist_backend`.
        control: the variable that says which cards a process sees.
        asks_driver: whether names in that variable may be those of the driver (UUIDs).
        assigned: whether its worker takes cards that vLLM has assigned (`init_device`).
        named: how `get_device_name` counts; likewise `sized` for the total memory, `rated` for the
            compute capability, and `identified` for the UUID.
        alike: what `is_cuda_alike` says.
        package: the importable package that has the runtime's version, "" where torch has it.
        distribution: what that package is installed as.
    """

    name: str
    release: str
    product: str
    kind: str
    platform: str
    type: str
    dispatch: str
    communicator: str
    control: str
    named: Counted
    sized: Counted
    rated: Counted
    identified: Counted
    device: str = ""
    asks_driver: bool = False
    assigned: bool = False
    alike: bool = False
    package: str = ""
    distribution: str = ""

    @property
    def device_type(self) -> str:
        """The type of `worker.device`."""
        return self.device or self.type

    def refuses(self, query: str) -> bool:
        """Whether the platform has no answer to a query of a device, for any device."""
        counted = {
            "device_name": self.named,
            "device_total_memory": self.sized,
            "device_capability": self.rated,
            "device_uuid": self.identified,
        }
        return counted.get(query) == "refused"

    @property
    def rates_each(self) -> bool:
        """Whether each device has a compute capability of its own."""
        return self.rated in {"visible", "card", "logical"}


BACKENDS: Final = {
    backend.name: backend
    for backend in (
        Backend(
            "cuda", "13.0", "Simulated H200", "CUDA", "cuda", "cuda", "CUDA", "nccl",
            "CUDA_VISIBLE_DEVICES", "logical", "logical", "visible", "logical",
            asks_driver=True, assigned=True, alike=True,
        ),
        Backend(
            "hip", "7.0.51831", "Simulated MI300X", "ROCM", "rocm", "cuda", "CUDA", "nccl",
            "CUDA_VISIBLE_DEVICES", "logical", "logical", "first", "card",
            assigned=True, alike=True,
        ),
        Backend(
            "xpu", "20250300", "Simulated B60", "XPU", "xpu", "xpu", "XPU", "xccl",
            "ZE_AFFINITY_MASK", "visible", "visible", "none", "refused", assigned=True,
        ),
        Backend(
            "npu", "2.7.1", "Simulated 910B", "OOT", "npu", "npu", "PrivateUse1", "hccl",
            "ASCEND_RT_VISIBLE_DEVICES", "visible", "refused", "none", "visible",
            package="torch_npu", distribution="torch_npu",
        ),
        Backend(
            "musa", "2.1.0", "Simulated S5000", "OOT", "musa", "musa", "MUSA", "mccl",
            "MUSA_VISIBLE_DEVICES", "logical", "logical", "card", "logical",
            alike=True, package="torch_musa", distribution="torch_musa",
        ),
        Backend(
            "hpu", "1.22.0.740", "Simulated Gaudi 3", "OOT", "hpu", "hpu", "HPU", "hccl",
            "HABANA_VISIBLE_MODULES", "backend", "refused", "none", "refused",
            package="habana_frameworks", distribution="habana_torch_plugin",
        ),
        Backend(
            "tpu", "2.9.0", "Simulated TPU v6e", "TPU", "tpu", "tpu", "XLA", "",
            "TPU_VISIBLE_CHIPS", "first", "refused", "none", "refused",
            device="xla", package="torch_xla", distribution="torch_xla",
        ),
    )
}  # fmt: skip
"""Every backend by its name; CUDA is the usual one."""


def backend_of(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UnknownBackendError: there is none.
    """
    try:
        return BACKENDS[name]
    except KeyError:
        known = ", ".join(BACKENDS)
        raise UnknownBackendError(f"unknown backend {name!r}: the known ones are {known}") from None


def choose(name: str) -> Backend:
    """Make every world of this process, and of those that it starts, one of that backend.

    Raises:
        UnknownBackendError: there is none of that name.
    """
    global _chosen  # noqa: PLW0603  # one run has one backend
    _chosen = backend_of(name)
    os.environ[VARIABLE] = name
    return _chosen


def chosen() -> Backend:
    """The backend of this run."""
    return _chosen


_chosen = backend_of(os.environ.get(VARIABLE, "cuda"))
