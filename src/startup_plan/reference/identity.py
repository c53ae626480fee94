# SPDX-License-Identifier: Apache-2.0
"""Who this worker is: its own device, the runtime under it, the libraries beside it."""

from __future__ import annotations

import functools
from typing import Any, Final

from . import vllm_access
from .plan import NoPlanError

_LIBRARIES: Final = (
    # accelerator runtimes that bring their own version where torch.version.cuda is empty (KEY-05)
    "torch_npu", "torch-xla", "intel-extension-for-pytorch", "torch_mlu", "torch_musa",
    "habana-torch-plugin",
    # kernels and communicators whose buffers fall into the measurement
    "triton", "flashinfer-python", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cublas-cu12",
    "deep_ep", "deep_gemm", "amd-aiter",
)  # fmt: skip


def describe_device(worker: Any = None) -> dict[str, object]:
    """Name, total memory in bytes and capability of the worker's own device (KEY-03, KEY-04).

    torch is asked, because it counts devices in one way only, the one in which `worker.device` is
    given. Platforms of vLLM count in three (`vllm/platforms/interface.py`), each query of each in
    its own, and some have no answer; they are asked where torch does not serve the device. The
    total memory is what vLLM itself has read of the device.

    Args:
        worker: the worker; without one, the device that this process has chosen is described.

    Raises:
        NoPlanError: the worker has no device yet, or nobody knows it.
    """
    import torch  # noqa: PLC0415  # importing this package must not import torch

    if worker is None:
        visible = local = torch.accelerator.current_device_index()
        kind = torch.accelerator.current_accelerator().type
    else:
        device = getattr(worker, "device", None)
        visible, kind = getattr(device, "index", None), getattr(device, "type", "")
        local = getattr(worker, "local_rank", None)
        if type(visible) is not int or visible < 0:
            raise NoPlanError("the worker has no device yet")
        if type(local) is not int or local < 0:
            local = visible
    serves = getattr(torch, kind, None)
    if serves is not None and hasattr(serves, "get_device_capability") and serves.is_available():
        name, capability = serves.get_device_name(visible), serves.get_device_capability(visible)
    else:
        platform = vllm_access.platform()
        name, capability = platform.get_device_name(local), platform.get_device_capability(visible)
    if worker is None:
        total = torch.accelerator.get_memory_info(visible)[1]
    else:
        total = worker.init_snapshot.total_memory
    if not name or not total:
        raise NoPlanError(f"nobody knows device {visible}")
    return {
        "device_name": str(name),
        "device_total_memory": int(total),
        "device_capability": None if capability is None else str(capability),
    }


def describe_runtime() -> dict[str, object]:
    """Versions of vLLM, torch, the accelerator runtime and its libraries (KEY-05, KEY-06)."""
    import torch  # noqa: PLC0415  # importing this package must not import torch

    runtime: dict[str, object] = {"vllm": vllm_access.version(), "torch": str(torch.__version__)}
    for name in ("cuda", "hip", "xpu"):
        found = getattr(torch.version, name, None)
        runtime[name] = None if found is None else str(found)
    runtime["libraries"] = library_versions()
    return runtime


@functools.cache
def library_versions() -> dict[str, str]:
    """Installed versions of the libraries that take device memory; they cannot change in a run."""
    # Imported here because it costs more than all the rest of this package.
    import importlib.metadata  # noqa: PLC0415

    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
