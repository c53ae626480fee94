# SPDX-License-Identifier: Apache-2.0
"""One process of a simulated engine: its memory, which is only sums, and the subject in it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, final

from startup_plan.harness.stubs.units import SAFETY_BUFFER, gib

from .calls import call
from .worker_steps import KV, DeviceMemoryError, look_up, noting

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from startup_plan.harness.stubs.state import Device
    from startup_plan.harness.stubs.worker import Footprint, SimulatedWorker

    from .engine import Engine
    from .outcome import BootResult
    from .world import World


@final
class Process:
    """One rank that boots in a world: `worker_steps.Memory` and `worker_steps.Attendant` in one.

    Nothing is taken of the device, on which other ranks boot one after the other. What is needed at
    the worst moment is held against what was free when the boot began.

    Args:
        world: where.
        engine: what boots.
        rank: which rank.
        footprint: what the rank takes.
        result: what comes of it.
    """

    __slots__ = (
        "_device",
        "_engine",
        "_footprint",
        "_module",
        "_rank",
        "_result",
        "_taken",
        "_world",
        "during_load",
        "during_save",
        "meet",
        "modules",
        "runs_out",
        "schema",
        "subject",
        "suggestion",
    )

    granule = 1
    buffer = SAFETY_BUFFER

    def __init__(
        self, world: World, engine: Engine, rank: int, footprint: Footprint, result: BootResult
    ) -> None:
        """Nothing has happened; attributes as the arguments of `World.boot`, and `Apart`."""
        self._world = world
        self._engine = engine
        self._rank = rank
        self._footprint = footprint
        self._result = result
        self._device: Device = world.device_of(engine, rank)
        self._taken = 0
        self._module: ModuleType | None = None
        self.during_load: contextlib.AbstractContextManager[Any] | None = None
        self.during_save: contextlib.AbstractContextManager[Any] | None = None
        self.runs_out = ""
        self.meet: Callable[[str], None] = lambda _: None
        self.subject = world.subject
        self.modules = world.subject.fresh
        self.schema: int | str | None = None
        self.suggestion: object = None

    @property
    def graphs_once(self) -> bool:
        """Whether the subject's own worker counts CUDA graphs once."""
        return self.subject.graphs_once

    def open(self) -> None:
        """The context is part of what `prepare` takes."""

    def read(self) -> tuple[int, int]:
        """Free and total memory."""
        return self._device.free - self._taken, self._device.total

    def prepare(self) -> None:
        """Take what stays beside weights and KV cache."""
        self._hold(self._footprint.persistent)

    def take(self, label: str, size: int) -> None:
        """Count it; the KV cache must fit beside everything else."""
        self._reach(label)
        if label == KV:
            needed = self._result.needed = self._footprint.total + size
            if needed > self._result.free:
                raise DeviceMemoryError(f"needs {gib(needed)} of {gib(self._result.free)} free")
        self._hold(size)

    def _hold(self, size: int) -> None:
        self._taken += size
        self._world.simulation.held = self._taken

    def give(self, label: str) -> None:
        """An estimate was never taken."""

    def forward(self, size: int) -> int:
        """The transient peak of a pass in which the ranks of an engine exchange."""
        self._reach("activations")
        self.meet("profile run")
        return size

    def capture(self, label: str, size: int) -> int:
        """Graphs take what they hold; to estimate them, ranks exchange."""
        self._reach(label)
        if label == "estimate":
            self.meet("graph estimate")
        return size

    def write(self, label: str) -> int:
        """Nothing is served in a world."""
        del label
        return 0

    def _reach(self, label: str) -> None:
        if label == self.runs_out:
            raise DeviceMemoryError(f"there is no room for the {label}")

    def worker(self, result: BootResult) -> SimulatedWorker:
        """Execute the subject, and give it a worker."""
        world = self._world
        schema = self.schema
        self._module = self.modules() if schema is None else self.subject.fresh_as(schema)
        result.worker = world.worker(self._engine, self._rank, result.calls, self._footprint)
        return result.worker

    def look_up(self, worker: SimulatedWorker, result: BootResult) -> None:
        """Let the subject look up its plan."""
        assert self._module is not None
        look_up(self._module, worker, result, self.during_load, watch_hash=self._world.watches_hash)

    def save(self, worker: SimulatedWorker, size: int, result: BootResult) -> None:
        """Let the subject save."""
        handed = size if self.suggestion is None else self.suggestion
        with noting(result, "save"), self.during_save or contextlib.nullcontext():
            call(self._module.maybe_save_startup_plan, worker, handed)  # type: ignore[union-attr]
