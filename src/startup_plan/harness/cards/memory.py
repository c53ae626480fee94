# SPDX-License-Identifier: Apache-2.0
"""What a small engine asks of the memory of a device; simulated, on the host, or on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from startup_plan.harness.stubs.units import SAFETY_BUFFER
from startup_plan.harness.world.worker_steps import DeviceMemoryError, Memory

if TYPE_CHECKING:
    from startup_plan.harness.stubs.state import Device


class CardMemory(Memory, Protocol):
    """The memory of one device as one process sees it, and what the device is."""

    @property
    def name(self) -> str:
        """Product name of the device."""

    @property
    def capability(self) -> tuple[int, int] | None:
        """Its compute capability."""

    @property
    def versions(self) -> tuple[str, str | None]:
        """Versions of torch and of the runtime."""


def rounded(size: int, granule: int) -> int:
    """`size` as the device gives it out."""
    return -(-size // granule) * granule


@final
class SimulatedMemory:
    """A simulated device, as one of its processes.

    Args:
        device: the device.
        owner: the process, by a name of its own.
        granule: the step in which the device gives memory.
    """

    versions = ("2.13.0", "13.0")

    def __init__(self, device: Device, owner: str, granule: int) -> None:
        """Nothing is taken yet."""
        self._device = device
        self._owner = owner
        self.name = device.name
        self.capability = device.capability
        self.granule = granule
        self.buffer = SAFETY_BUFFER

    def open(self) -> None:
        """Create the context: about as much as one takes on a real card."""
        self.take("context", self._device.total // 256)

    def read(self) -> tuple[int, int]:
        """Free and total memory."""
        return self._device.free, self._device.total

    def prepare(self) -> None:
        """Create library handles."""
        self.take("handles", self._device.total // 512)

    def take(self, label: str, size: int) -> None:
        """Allocate and keep."""
        asked = rounded(size, self.granule)
        if asked > self._device.free:
            raise DeviceMemoryError(
                f"simulated out of memory: {asked} bytes asked, {self._device.free} free"
            )
        self._device.tenants[self._named(label)] = asked

    def give(self, label: str) -> None:
        """Give back."""
        self._device.tenants.pop(self._named(label), None)

    def close(self) -> None:
        """The process has ended, and the driver has cleaned up."""
        for label in [name for name in self._device.tenants if name.startswith(self._named(""))]:
            del self._device.tenants[label]

    def forward(self, size: int) -> int:
        """One pass."""
        self.take("activations", size)
        self.give("activations")
        return rounded(size, self.granule)

    def capture(self, label: str, size: int) -> int:
        """Capture graphs."""
        before = self._device.free
        self.take(label, size)
        return before - self._device.free

    def write(self, label: str) -> int:
        """Nothing is written, and all of it was there."""
        return self._device.tenants.get(self._named(label), 0)

    def _named(self, label: str) -> str:
        return f"{self._owner}: {label}"
