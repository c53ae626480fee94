# SPDX-License-Identifier: Apache-2.0
"""`current_platform`, of whichever backend the active simulation has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from .state import active
from .torch_module import accelerator
from .worker import DeviceCapability

if TYPE_CHECKING:
    from .backends import Counted
    from .state import Device


@final
class StubPlatform:
    """Per-device queries that count as those of the platform in question (`backends`)."""

    device_name = property(lambda _: active().runtime.backend.platform)
    device_type = property(lambda _: active().runtime.backend.type)
    dispatch_key = property(lambda _: active().runtime.backend.dispatch)
    device_control_env_var = property(lambda _: active().runtime.backend.control)
    dist_backend = property(lambda _: active().runtime.backend.communicator)

    def get_device_name(self, device_id: int = 0) -> str:
        """Product name of a device; of device 0 unless told otherwise, as in vLLM."""
        counted = active().runtime.backend.named
        if counted == "backend":
            active().note("device_name", device_id)
            return active().runtime.backend.platform
        return _asked("device_name", device_id, counted).name

    def get_device_total_memory(self, device_id: int = 0) -> int:
        """Memory of a device in bytes; of device 0 unless told otherwise."""
        backend = active().runtime.backend
        try:
            return _asked("device_total_memory", device_id, backend.sized).total
        except Exception:
            # ROCm alone asks torch where its driver does not answer, and there by torch's count.
            if backend.name != "hip":
                raise
        total: int = accelerator().get_device_properties(device_id).total_memory
        return total

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        """Compute capability of a device; of device 0 unless told otherwise."""
        simulation = active()
        counted = simulation.runtime.backend.rated
        if counted == "none":
            simulation.note("device_capability", device_id)
            return None
        found = simulation.rating(_asked("device_capability", device_id, counted))
        return None if found is None else DeviceCapability(*found)

    def get_device_uuid(self, device_id: int = 0) -> str:
        """A name that tells two equal devices apart."""
        simulation = active()
        device = _asked("device_uuid", device_id, simulation.runtime.backend.identified)
        return simulation.uuid(device)

    def device_control_id_to_physical_device_id(self, device_id: str) -> int:
        """The card of one entry of the control variable."""
        return active().numbering().card_of_name(device_id)

    def device_id_to_physical_device_id(self, device_id: int) -> int:
        """The card of a device as vLLM counts."""
        return active().numbering().card_of_logical(device_id)

    def logical_device_id_to_visible_device_id(self, device_id: int) -> int:
        """Torch's number of a device as vLLM counts."""
        return active().numbering().visible_of_logical(device_id)

    def visible_device_id_to_physical_device_id(self, device_id: int) -> int:
        """The card of a device as torch counts."""
        return active().numbering().card_of_visible(device_id)

    def is_cuda(self) -> bool:
        """Whether this is vLLM's CUDA platform."""
        return active().runtime.backend.kind == "CUDA"

    def is_rocm(self) -> bool:
        """Whether this is vLLM's ROCm platform."""
        return active().runtime.backend.kind == "ROCM"

    def is_cuda_alike(self) -> bool:
        """Whether torch's cuda interface serves this build."""
        return active().runtime.backend.alike

    def is_xpu(self) -> bool:
        """Whether this is vLLM's XPU platform."""
        return active().runtime.backend.kind == "XPU"

    def is_out_of_tree(self) -> bool:
        """Whether a plugin brings the platform."""
        return active().runtime.backend.kind == "OOT"

    def is_cpu(self) -> bool:
        """Never: plans are kept for accelerators."""
        return False

    def is_tpu(self) -> bool:
        """Whether this is vLLM's TPU platform."""
        return active().runtime.backend.kind == "TPU"

    def is_integrated_gpu(self, device_id: int = 0) -> bool:
        """Never: the simulated devices have memory of their own."""
        active().note("integrated", device_id)
        return False

    def __getattr__(self, name: str) -> Any:
        """What torch has for the device under that name, or None, as vLLM's answers."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "is_musa" and active().runtime.backend.name == "musa":
            return lambda: True
        return getattr(accelerator(), name, None)


def _asked(query: str, number: int, counted: Counted) -> Device:
    """The device for which a query by `number` is answered.

    Raises:
        IndexError: vLLM counts no such device.
        AssertionError: torch counts no such device.
        DriverError: the driver has no such card.
        NotImplementedError: this platform does not answer the query.
    """
    simulation = active()
    simulation.note(query, number)
    if counted == "refused":
        raise NotImplementedError
    if counted == "first":
        return simulation.devices[0]
    numbering = simulation.numbering()
    if counted == "logical":
        number = numbering.card_of_logical(number)
    elif counted == "visible" and simulation.runtime.backend.asks_driver:
        number = numbering.card_of_visible(number)
    elif counted == "visible":
        return simulation.seen(query, number)
    return simulation.devices[numbering.card(number)]
