# SPDX-License-Identifier: Apache-2.0
"""The card of the ordinary run: the world's simulated devices, processes that are none."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar, final

from startup_plan.harness.stubs.units import SAFETY_BUFFER
from startup_plan.harness.world import worker_steps
from startup_plan.harness.world.worker_steps import DeviceMemoryError

from .card import LAST, Card
from .memory import SimulatedMemory
from .subject_plan import SubjectPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.subject import Subject
    from startup_plan.harness.world.world import World

    from .order import Order


@final
class SimulatedBoot:
    """An engine that is booting on a simulated device."""

    def __init__(self, card: SimulatedCard, order: Order, subject: Subject, owner: str) -> None:
        """Nothing has happened yet; the generator runs as far as it is asked to."""
        self.result = order.new_result()
        self._card = card
        self._subject = subject
        device = card.world.devices[order.device]
        self._memory = SimulatedMemory(device, owner, card.granule)
        plan = SubjectPlan(order, subject, card.world.simulation, contextlib.nullcontext)
        self._life: Iterator[str] = worker_steps.boot(order, self._memory, plan, self.result)

    def advance(self, stage: str) -> BootResult:
        """Go on up to `stage`, or as far as it comes."""
        while self.result.stage != stage and next(self._life, None) is not None:
            pass
        return self.result

    def end(self) -> None:
        """End it; its memory is free again."""
        self._memory.close()
        self._card.released(self._subject)

    def kill(self) -> None:
        """Kill it; its memory is free once the card settles."""
        self._card.killed.append(self._memory)
        self._card.released(self._subject)


@final
class SimulatedTenant:
    """A co-tenant of a simulated device."""

    def __init__(self, card: SimulatedCard, owner: str, device: int) -> None:
        """It has a context and holds nothing."""
        self.held = 0
        self._memory = SimulatedMemory(card.world.devices[device], owner, card.granule)
        self._memory.open()

    def hold(self, size: int) -> None:
        """Hold exactly `size` bytes."""
        self._memory.give("held")
        self._memory.take("held", size)
        self.held = size

    def end(self) -> None:
        """Let go and end."""
        self._memory.close()


@final
class SimulatedCard(Card):
    """The devices of a world.

    Args:
        world: an entered world.
        granule: the step in which its devices give memory, in bytes; 1 shows what a step hides.
    """

    kind: ClassVar[str] = "simulated"

    def __init__(self, world: World, granule: int) -> None:
        """Nothing has happened."""
        super().__init__(world.cache_root)
        self.world = world
        self.name = world.devices[0].name
        self.total = world.devices[0].total
        self.granule = granule
        self.buffer = SAFETY_BUFFER
        self.last = LAST
        self.devices = len(world.devices)
        self.killed: list[SimulatedMemory] = []
        self._idle = [world.subject]
        self._owners = 0

    def free(self, device: int = 0) -> int:
        """Free bytes of a device."""
        return self.world.devices[device].free

    def used(self, device: int = 0) -> int:
        """Bytes in use on a device."""
        return self.world.devices[device].total - self.free(device)

    def start(self, order: Order, until: str) -> SimulatedBoot:
        """Start an engine."""
        boot = SimulatedBoot(self, order, self._subject(), self._owner("engine"))
        boot.advance(until)
        return boot

    def _tenant(self, device: int) -> SimulatedTenant:
        try:
            return SimulatedTenant(self, self._owner("tenant"), device)
        except DeviceMemoryError as error:
            raise AssertionError(f"a scenario asks for too much: {error}") from error

    def settle(self) -> None:
        """Give back what was killed."""
        while self.killed:
            self.killed.pop().close()

    def released(self, subject: Subject) -> None:
        """Take a subject back whose boot has ended."""
        self._idle.append(subject)

    def _owner(self, what: str) -> str:
        self._owners += 1
        return f"{what} {self._owners}"

    def _subject(self) -> Subject:
        """The subject, in modules that no other boot is using at the same time."""
        return self._idle.pop() if self._idle else self.world.subject.twin()
