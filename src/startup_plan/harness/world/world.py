# SPDX-License-Identifier: Apache-2.0
"""A simulated fleet: devices with physical memory, co-tenants, a disk, engines that boot.

A boot runs the steps of vLLM's worker in their order: read the free memory, load the weights, ask
the subject for a plan, otherwise measure, allocate, capture graphs, hand the result over for
saving. What a rank really takes comes from `physics`, so that a boot that hands out too much ends
in an out-of-memory error here, whatever the subject believed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, final

from startup_plan.harness.stubs import backends
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs import modules as stub_modules
from startup_plan.harness.stubs.log import keep_line
from startup_plan.harness.stubs.numbering import Numbering
from startup_plan.harness.stubs.process_groups import seat_alone, sit
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate
from startup_plan.harness.stubs.worker import (
    Footprint,
    MemorySnapshot,
    ModelRunner,
    SimulatedWorker,
    StubDevice,
)
from startup_plan.support import plan_files
from startup_plan.support.environment import ROOT, flag_value, is_foreign, variables
from startup_plan.support.logged_lines import LoggedLines
from startup_plan.support.seal import process_kept

from . import physics, worker_steps
from .outcome import BootResult
from .process import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .engine import Engine
    from .subject import Subject
    from .together import Apart


class Seat(NamedTuple):
    """Where a rank sits.

    Attributes:
        ordinal: torch's number of the device.
        device: the device.
    """

    ordinal: int
    device: Device


class KilledError(BaseException):
    """The simulated process died here; nothing that it does afterwards reaches the disk."""


@final
class World:
    """One host with one disk, on which engines boot with a subject.

    Args:
        subject: the implementation under test.
        root: an empty folder of the real disk; the cache root lies inside.
        devices: the accelerators by the driver's number; two equal ones unless told otherwise.

    Attributes:
        devices: the accelerators, and after them slices of them.
        runtime: installed versions.
        cache_root: `VLLM_CACHE_ROOT` of all engines.
        story: what has happened, one clause each.
        boots: number of ranks that have booted.
        has_groups: whether a rank that boots alone finds its process groups made, as in vLLM; the
            other ranks are then in its own position.
        watches_hash: whether boots note the config hash before and after the look-up (BOOT-05).
        legal: inputs of a boot -> the values in bytes that a later boot under the same inputs may
            apply: the one saved last, and after a save that a fault hit, the one before as well.
    """

    booted: ClassVar[int] = 0
    """Ranks that have booted in this process, in any world."""

    def __init__(
        self, subject: Subject, root: Path | str, devices: Sequence[Device] | None = None
    ) -> None:
        """A world in which nothing has happened; enter it before anything boots."""
        self.subject = subject
        self.devices = list(devices) if devices is not None else [Device(), Device()]
        self.runtime = Runtime(backend=backends.chosen().name)
        self.simulation = Simulation(self.devices, self.runtime)
        self.cache_root = os.path.join(root, "cache")
        self.story: list[str] = []
        self.boots = 0
        self.watches_hash = False
        self.has_groups = True
        self.legal: dict[tuple[object, ...], frozenset[int]] = {}
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Install the stubs and hide what this machine has set that could matter."""
        self._exit.enter_context(self.subject.out_of_the_way())
        self._exit.enter_context(stub_modules.installed())
        self._exit.callback(setattr, stub_configs, "version_of", stub_configs.version_of)
        stub_configs.version_of = lambda: self.runtime.vllm
        self._exit.enter_context(variables(dict.fromkeys(filter(is_foreign, os.environ))))
        self._exit.enter_context(_captured_logging(self.simulation))
        activate(self.simulation)
        self._exit.callback(activate, None)
        return self

    def __exit__(self, *_raised: object) -> None:
        """Put everything back as it was."""
        self._exit.close()

    def become(self, backend: str) -> None:
        """Be a host with another kind of accelerator from now on."""
        self.runtime = self.simulation.runtime = Runtime(backend=backend)
        for device in self.devices:
            device.name = self.runtime.backend.product

    def again(self, root: Path | str) -> None:
        """Start over on another empty folder: same stubs, nothing has happened.

        Entering a world costs more than a boot; a state machine enters one for all its examples.
        """
        self.devices = [Device(), Device()]
        self.runtime = Runtime(backend=backends.chosen().name)
        self.simulation.devices, self.simulation.runtime = self.devices, self.runtime
        self.simulation.broken.clear()
        self.cache_root = os.path.join(root, "cache")
        self.story.clear()
        self.legal.clear()

    @property
    def plan_folder(self) -> str:
        """Where plans are stored (KEY-15)."""
        return plan_files.plan_folder(self.cache_root)

    def files(self) -> list[str]:
        """Names of everything in the plan folder, sorted."""
        return plan_files.names_in(self.plan_folder)

    def plans(self) -> list[str]:
        """Paths of the plan files, sorted."""
        return plan_files.plans_below(self.cache_root)

    def tell(self, clause: str) -> None:
        """Add a clause to the story."""
        self.story.append(clause)

    def seat(self, engine: Engine, rank: int) -> Seat:
        """Where a rank of `engine` sits: torch's number of its device, and the device."""
        simulation = self.simulation
        backend = self.runtime.backend
        numbering = Numbering(
            self.devices,
            engine.environ.get(backend.control, ""),
            engine.assigned if backend.assigned else None,
            asks_driver=backend.asks_driver,
            platform=backend.platform,
        )
        ordinal = numbering.visible_of_logical(engine.placement[rank])
        return Seat(ordinal, simulation.devices[numbering.visible()[ordinal]])

    def device_of(self, engine: Engine, rank: int = 0) -> Device:
        """The device on which a rank of `engine` runs."""
        return self.seat(engine, rank).device

    def take_groups(self, engine: Engine, rank: int) -> None:
        """Give the running process the groups of a rank that boots alone, where it has any."""
        if self.has_groups:
            sit(seat_alone(engine.config.parallel_config, rank, self.seat(engine, rank).ordinal))

    def take_seat(self, engine: Engine, rank: int) -> None:
        """Be the process of a rank that has chosen its device."""
        backend = self.runtime.backend
        self.simulation.current_device = self.seat(engine, rank).ordinal
        self.simulation.assigned = engine.assigned if backend.assigned else None
        self.simulation.held = 0

    def inputs(self, engine: Engine, rank: int) -> tuple[object, ...]:
        """Everything that must tell two plans apart; equal inputs are the same boot again."""
        device = self.device_of(engine, rank)
        return (
            engine.hash_override,
            repr(sorted(engine.truth.items())),
            engine.utilization,
            self.traits(device),
            self.runtime.versions(),
            (rank, engine.world_size, engine.replica),
        )

    def traits(self, device: Device) -> tuple[object, ...]:
        """What tells a device from others (KEY-03)."""
        simulation = self.simulation
        return (simulation.name(device), device.total, simulation.rating(device))

    def worker(
        self,
        engine: Engine,
        rank: int = 0,
        calls: list[str] | None = None,
        footprint: Footprint | None = None,
    ) -> SimulatedWorker:
        """A worker of a new process of `engine` that has loaded its weights on its device.

        Args:
            engine: what boots.
            rank: which rank.
            calls: list to which its model runner appends the passes that are asked of it.
            footprint: what it takes, where that is known already.
        """
        ordinal, device = self.seat(engine, rank)
        kind = self.runtime.backend.device_type
        worker = SimulatedWorker(
            engine.new_config(),
            rank=rank,
            local_rank=engine.placement[rank],
            device=StubDevice(kind, ordinal),
            snapshot=_snapshot(device, StubDevice(kind, ordinal)),
            requested_memory=math.ceil(device.total * engine.utilization),
            model_runner=ModelRunner(
                footprint or self.footprint(engine, rank),
                [] if calls is None else calls,
            ),
        )
        if not engine.shows_weights:
            del worker.model_runner.model_memory_usage
        return worker

    def footprint(self, engine: Engine, rank: int) -> Footprint:
        """What a rank of `engine` takes of its device."""
        device = self.device_of(engine, rank)
        return physics.footprint(engine, rank, self.traits(device), self.runtime)

    @contextlib.contextmanager
    def process_of(self, engine: Engine, cache_root: str = "") -> Iterator[None]:
        """The environment of a new process of `engine`; what it does to itself ends with it."""
        with process_kept():
            root = cache_root or self.cache_root
            os.environ.update({ROOT: root, **flag_value(engine.enabled), **engine.environ})
            yield

    def boot(
        self,
        engine: Engine,
        rank: int = 0,
        *,
        during_load: contextlib.AbstractContextManager[Any] | None = None,
        during_save: contextlib.AbstractContextManager[Any] | None = None,
        suggestion: object = None,
        schema: int | str | None = None,
        runs_out: str = "",
        until: str = "saved",
        apart: Apart | None = None,
    ) -> BootResult:
        """Boot one rank of `engine` in a new process.

        Args:
            engine: what boots.
            rank: which rank.
            during_load: entered around the subject's look-up, for faults.
            during_save: entered around the subject's save, for faults.
            suggestion: handed over for saving instead of what was measured.
            schema: another plan schema version for this process.
            runs_out: what there is no memory for: "weights", "activations", "estimate", "kv" or
                "graphs".
            until: the stage at which the process ends; before it has saved, that is a kill.
            apart: what it has of its own beside others that boot with it (`together`).

        Returns:
            What came of it; an exception of the subject is in the result, never raised here.
        """
        self.boots += 1
        World.booted += 1
        footprint = self.footprint(engine, rank)
        result = BootResult(engine.name, engine.utilization, rank, engine.explicit)
        inputs = self.inputs(engine, rank)
        result.legal = self.legal.get(inputs, frozenset())
        simulation = self.simulation
        self.take_seat(engine, rank)
        simulation.log, simulation.queries = result.log, result.queries
        process = Process(self, engine, rank, footprint, result)
        process.during_load, process.during_save = during_load, during_save
        process.suggestion, process.schema, process.runs_out = suggestion, schema, runs_out
        cache_root = self.cache_root
        if apart is not None:
            process.subject, process.modules = apart.subject, apart.modules
            process.meet, cache_root = apart.meet, apart.cache_root
            apart.begun(result)
        else:
            self.take_groups(engine, rank)
        with self.process_of(engine, cache_root):
            try:
                self._live(process, engine, footprint, result, until)
            except KilledError:
                result.killed = True
            finally:
                if apart is None:
                    sit(None)
        measured = result.suggestion is not None
        handed = suggestion if measured and suggestion is not None else result.suggestion
        if type(handed) is int and 0 < handed <= min(result.free, result.budget) and engine.enabled:
            # What must not be stored (SAVE-13) leaves the older plan; whoever stores it, has it.
            beyond = engine.shows_weights and handed > result.budget - footprint.weights
            uncertain = during_save is not None or result.raised or beyond
            self.legal[inputs] = (result.legal if uncertain else frozenset()) | {handed}
        self.tell(str(result))
        return result

    def _live(
        self,
        process: Process,
        engine: Engine,
        footprint: Footprint,
        result: BootResult,
        until: str,
    ) -> None:
        """Boot as far as the save; what is served afterwards costs time and shows nothing."""
        for stage in worker_steps.boot(footprint, process, process, result):
            if stage == "snapshot":
                result.measurable = result.budget - footprint.total
            elif stage == "profiled":
                assert result.worker is not None
                for path, value in engine.rewrites:
                    stub_configs.set_setting(result.worker.vllm_config, path, value)
            if stage == until:
                return


def _snapshot(device: Device, own: StubDevice) -> MemorySnapshot:
    free, total = device.free, device.total
    return MemorySnapshot(
        free_memory=free,
        total_memory=total,
        cuda_memory=total - free,
        non_torch_memory=total - free,
        device=own,
        auto_measure=False,
    )


@contextlib.contextmanager
def _captured_logging(simulation: Simulation) -> Iterator[None]:
    root = logging.getLogger()
    handler = LoggedLines(lambda level, text: keep_line(simulation.log, level, text))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
