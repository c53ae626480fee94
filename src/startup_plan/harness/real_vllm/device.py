# SPDX-License-Identifier: Apache-2.0
"""A simulated accelerator under the real torch and the real vLLM of this process.

vLLM's worker asks `torch.accelerator` for memory and its platform for what a device is. Both get an
accelerator here that has memory figures and nothing else, so that the worker's own code runs on a
machine without a GPU. The change is made for good: the process is a child that does one boot.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.platform import StubPlatform
from startup_plan.harness.stubs.state import active
from startup_plan.harness.stubs.torch_module import ACCELERATOR, index_of

if TYPE_CHECKING:
    from startup_plan.harness.stubs.state import Device

_ASKS_PLATFORM: Final = (
    "vllm.v1.worker.gpu_worker",
    "vllm.v1.worker.utils",
    "vllm.utils.mem_utils",
)
"""Modules on the worker's way through a boot that bound vLLM's platform when they were imported."""


_OF_TORCH: Final = frozenset({"current_accelerator"})
"""What gives a device of torch's own type, which real torch does itself."""


@final
class Accelerator:
    """Memory of the process's own device. Sizes in bytes.

    Attributes:
        allocated: what torch holds.
        peak: the most that torch has held since the peak was reset.
        outside: what the process holds outside torch's allocator.
    """

    def __init__(self, device: Device) -> None:
        """Nothing is held yet on `device`."""
        self._device = device
        self.allocated = self.peak = self.outside = 0

    def take(self, weights: int = 0, outside: int = 0) -> None:
        """Hold more, by torch and outside of it, until the process ends."""
        self.allocated += weights
        self.outside += outside
        self.peak = max(self.peak, self.allocated)
        self._device.tenants["this process"] = self.allocated + self.outside

    def pass_through(self, activations: int) -> None:
        """Hold `activations` for a moment."""
        self.peak = max(self.peak, self.allocated + activations)

    def forget_peak(self) -> None:
        """What torch's reset of the peak does."""
        self.peak = self.allocated


def install(accelerator: Accelerator) -> None:
    """Let torch and vLLM of this process see the active simulation and `accelerator`."""
    import torch  # noqa: PLC0415  # only a child that boots may import it
    from vllm import platforms  # noqa: PLC0415  # as torch

    torch.version.cuda = active().runtime.cuda
    for module in (torch.accelerator, torch.cuda):
        for name, answer in _answers(accelerator).items():
            setattr(module, name, answer)
    torch.cuda.memory.get_allocator_backend = lambda: "simulated"
    real, simulated = platforms.current_platform, _platform(platforms)
    platforms._current_platform = simulated
    platforms.current_platform = simulated
    for name in _ASKS_PLATFORM:
        if getattr(sys.modules[name], "current_platform", None) is real:
            vars(sys.modules[name])["current_platform"] = simulated


def _answers(accelerator: Accelerator) -> dict[str, Any]:
    return {
        **{name: answer for name, answer in ACCELERATOR.items() if name not in _OF_TORCH},
        "memory_stats": lambda _device=None: {
            "allocated_bytes.all.peak": accelerator.peak,
            "allocated_bytes.all.current": accelerator.allocated,
        },
        "memory_reserved": lambda _device=None: accelerator.allocated,
        "memory_allocated": lambda _device=None: accelerator.allocated,
        "max_memory_allocated": lambda _device=None: accelerator.peak,
        "reset_peak_memory_stats": lambda _device=None: accelerator.forget_peak(),
        "empty_cache": lambda: None,
        "synchronize": lambda _device=None: None,
        "set_device_index": _choose,
        "set_device": _choose,
    }


def _choose(device: Any) -> None:
    active().current_device = index_of(device) or 0


def _platform(platforms: Any) -> Any:
    """A platform of vLLM whose devices are those of the active simulation."""
    interface = platforms.interface

    def queries() -> StubPlatform:
        """Queries that know what vLLM's own worker was assigned (releases that assign cards)."""
        assigned = getattr(interface, "get_assigned_physical_gpu_ids", lambda: None)
        active().assigned = assigned()
        return StubPlatform()

    class SimulatedPlatform(interface.Platform):  # type: ignore[misc, name-defined]  # found at run time
        _enum = interface.PlatformEnum.CUDA
        device_name = device_type = "cuda"
        dispatch_key = "CUDA"
        dist_backend = "gloo"
        device_control_env_var = "CUDA_VISIBLE_DEVICES"

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return queries().get_device_name(device_id)

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return queries().get_device_total_memory(device_id)

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            found = queries().get_device_capability(device_id)
            return None if found is None else interface.DeviceCapability(*found)

        @classmethod
        def is_integrated_gpu(cls, device_id: int = 0) -> bool:
            del device_id
            return False

        @classmethod
        def current_device(cls) -> int:
            return active().current_device

        @classmethod
        def check_if_supports_dtype(cls, dtype: Any) -> None:
            del dtype

        @classmethod
        def manual_seed_all(cls, seed: int) -> None:
            del seed

        @classmethod
        def get_device_communicator_cls(cls) -> str:
            # The plain one: those of real platforms set up hardware or shared memory.
            return (
                "vllm.distributed.device_communicators.base_device_communicator."
                "DeviceCommunicatorBase"
            )

    return SimulatedPlatform()
