# SPDX-License-Identifier: Apache-2.0
"""The state that simulated vLLM and torch modules answer from: one active simulation at a time.

A subject binds names such as `current_platform` when it is imported and calls them later, so the
stub modules hold no state of their own; they ask `active()` each time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, final

from .backends import backend_of, chosen
from .numbering import Numbering, uuid_of
from .units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Sequence


class SimulatedQueryError(RuntimeError):
    """A query of the device, the runtime or the configuration that a test made fail."""


@final
class Device:
    """A simulated accelerator. All sizes are bytes.

    Args:
        name: product name, as the platform reports it; the backend's own unless told otherwise.
        total: memory of the device.
        capability: compute capability (major, minor), or None on a backend without one.
        context: what the driver itself holds while any process uses the device.
        slice_of: the index of the card of which this is a slice (MIG), None for a card.
    """

    __slots__ = ("capability", "context", "name", "slice_of", "tenants", "total")

    def __init__(
        self,
        name: str = "",
        total: int = 80 * GIB,
        capability: tuple[int, int] | None = (9, 0),
        context: int = 512 * MIB,
        slice_of: int | None = None,
    ) -> None:
        """A device without co-tenants."""
        self.name = name or chosen().product
        self.total = total
        self.capability = capability
        self.context = context
        self.slice_of = slice_of
        self.tenants: dict[str, int] = {}

    @property
    def free(self) -> int:
        """What a new process would find free."""
        return max(0, self.total - self.context - sum(self.tenants.values()))


@final
class Runtime:
    """Versions of the software under a simulated worker.

    Args:
        vllm: version of vLLM.
        torch: version of torch.
        backend: the accelerator for which torch is built; its runtime has the backend's release.
        libraries: other installed distributions, lower case with underscores, and their versions.

    Attributes:
        cuda: version of the accelerator's runtime, None where torch is built for another; so are
            `hip`, `xpu`, `npu`, `musa`, `hpu` and `tpu`. What torch itself says of the first three
            is in `torch.version`; the others have a package each.
    """

    __slots__ = (
        "backend", "cuda", "hip", "hpu", "libraries", "musa", "npu", "torch", "tpu", "vllm", "xpu",
    )  # fmt: skip

    def __init__(
        self,
        vllm: str = "0.33.0",
        torch: str = "2.13.0",
        backend: str = "cuda",
        libraries: dict[str, str] | None = None,
    ) -> None:
        """A CUDA build unless told otherwise."""
        self.vllm = vllm
        self.torch = torch
        self.backend = backend_of(backend)
        self.libraries = {} if libraries is None else libraries
        self.cuda: str | None = None
        self.hip: str | None = None
        self.xpu: str | None = None
        self.npu: str | None = None
        self.musa: str | None = None
        self.hpu: str | None = None
        self.tpu: str | None = None
        setattr(self, backend, self.backend.release)

    @property
    def packaged(self) -> str | None:
        """Version of the package that brings the accelerator's runtime, None where torch does."""
        found: str | None = getattr(self, self.backend.name)
        return found if self.backend.package else None

    def versions(self) -> tuple[str | None, ...]:
        """Everything that a key must tell apart (KEY-05, KEY-06)."""
        accelerators = (self.cuda, self.hip, self.xpu, self.npu, self.musa, self.hpu, self.tpu)
        return (self.vllm, self.torch, *accelerators)


@final
class Simulation:
    """What the stub modules answer from during a boot.

    Args:
        devices: the cards of this host by the driver's number, and after them slices of cards.
        runtime: the installed versions.

    Attributes:
        current_device: the device that the running process has chosen, as torch counts; -1 where
            none has been initialised.
        assigned: the cards that vLLM has told this process to use, None where it has not.
        broken: names of queries that raise `SimulatedQueryError`.
        held: bytes that the running process has taken of its device so far.
        queries: device queries made so far, as (name, the number that was given).
        log: lines that the subject logged, as (level, message).
    """

    __slots__ = (
        "assigned", "broken", "current_device", "devices", "held", "log", "queries", "runtime",
    )  # fmt: skip

    def __init__(self, devices: list[Device], runtime: Runtime) -> None:
        """A simulation in which nothing is broken and nothing has happened."""
        self.devices = devices
        self.runtime = runtime
        self.current_device = 0
        self.assigned: Sequence[int] | None = None
        self.broken: set[str] = set()
        self.held = 0
        self.queries: list[tuple[str, int]] = []
        self.log: list[tuple[str, str]] = []

    def numbering(self) -> Numbering:
        """How the running process counts devices."""
        backend = self.runtime.backend
        return Numbering(
            self.devices,
            os.environ.get(backend.control, ""),
            self.assigned,
            asks_driver=backend.asks_driver,
            platform=backend.platform,
        )

    def note(self, query: str, number: int, asked: str = "vLLM") -> None:
        """Note a query of vLLM or torch, and fail as the test wants."""
        self.queries.append((query if asked == "vLLM" else f"{asked}'s {query}", number))
        if query in self.broken:
            raise SimulatedQueryError(f"simulated: the query {query} fails")

    def seen(self, query: str, number: int | None = None) -> Device:
        """Note a query of torch's and answer with the device; the chosen one unless told otherwise.

        Raises:
            IndexError: torch sees no such device.
            SimulatedQueryError: this query is to fail.
        """
        ordinal = self.current_device if number is None else int(number)
        self.note(query, ordinal, "torch")
        visible = self.numbering().visible()
        if not 0 <= ordinal < len(visible):
            raise IndexError(f"torch sees {len(visible)} devices and no device {ordinal}")
        return self.devices[visible[ordinal]]

    def memory(self, number: int | None = None) -> tuple[int, int]:
        """Free and total memory, in bytes, as torch reads them; what it raises as `seen`."""
        device = self.seen("memory", number)
        own = number is None or int(number) == self.current_device
        return max(0, device.free - (self.held if own else 0)), device.total

    def name(self, device: Device) -> str:
        """The product name of a device; where a host has one kind of device, it has one name."""
        first = self.runtime.backend.named == "first"
        return self.devices[0].name if first else device.name

    def rating(self, device: Device) -> tuple[int, int] | None:
        """The compute capability of a device; where a host has one kind of device, it has one."""
        backend = self.runtime.backend
        if backend.rates_each:
            return device.capability
        return self.devices[0].capability if backend.rated == "first" else None

    def uuid(self, device: Device) -> str:
        """The name under which the driver knows a device."""
        return uuid_of(self.devices, self.devices.index(device))


_active: Simulation | None = None


def activate(simulation: Simulation | None) -> None:
    """Make `simulation` the one that the stub modules answer from."""
    global _active  # noqa: PLW0603  # stub modules are process-wide, as the modules they stand for
    _active = simulation


def active() -> Simulation:
    """The simulation in force.

    Raises:
        RuntimeError: a stub was used outside any simulated boot.
    """
    if _active is None:
        raise RuntimeError("a simulated vLLM was asked outside a simulated boot")
    return _active
