# SPDX-License-Identifier: Apache-2.0
"""`current_platform` as far as a subject asks it about devices."""

from __future__ import annotations

from typing import Any, final

from .state import active
from .torch_module import ACCELERATOR
from .worker import DeviceCapability


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
