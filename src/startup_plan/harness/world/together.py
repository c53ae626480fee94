# SPDX-License-Identifier: Apache-2.0
"""Boots that belong together: the ranks of one engine, or the engines of one process.

Each boots in a thread of its own, one at a time (`turns`), as a process of its own: environment,
modules and what the stubs answer from change hands with the turn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
from typing import TYPE_CHECKING, Any, Final, final
from unittest import mock

from startup_plan.harness.stubs.process_groups import Hall, Layout, Seat, sit
from startup_plan.harness.stubs.unknown import NO_ALARM, note
from startup_plan.support.seal import process_kept

from .outcome import BootResult
from .turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from .engine import Engine
    from .subject import Subject
    from .world import World


@final
@dataclasses.dataclass(slots=True)
class Rank:
    """One rank of an engine, and what is particular to it.

    Attributes:
        engine: the replica that it belongs to.
        rank: its number in the replica.
        number: its number among all ranks.
        cache_root: its own `VLLM_CACHE_ROOT`, "" for that of the world.
        held: bytes that others hold of its device beyond what its device says.
        broken: device queries that fail in its process.
        schema: another plan schema version in its process.
        runs_already: whether it is up and serves, and boots no more (`enable_elastic_ep`).
    """

    engine: Engine
    rank: int
    number: int
    cache_root: str = ""
    held: int = 0
    broken: tuple[str, ...] = ()
    schema: int | str | None = None
    runs_already: bool = False


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Apart:
    """What a boot has of its own although others boot in the same world.

    Attributes:
        subject: the subject, with instances of this process.
        modules: gives its module.
        begun: called with what is known of the boot, which is complete when it ends.
        cache_root: `VLLM_CACHE_ROOT`.
        meet: called at each pass in which ranks exchange, with the name of the pass.
    """

    subject: Subject
    modules: Callable[[], ModuleType]
    begun: Callable[[BootResult], None]
    cache_root: str
    meet: Callable[[str], None]


@final
class _Process:
    """What changes hands with a turn."""

    __slots__ = ("_environ", "_handlers", "_kept", "_modules", "_seat", "_world")

    def __init__(self, world: World, seat: Seat | None, modules: Subject, broken: set[str]) -> None:
        self._world = world
        self._seat = seat
        self._modules = modules
        self._environ: dict[str, str] | None = None
        self._handlers: dict[int, Any] = {}
        self._kept: tuple[Any, ...] = (0, None, [], [], broken, 0)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        simulation = self._world.simulation
        names = ("current_device", "assigned", "log", "queries", "broken", "held")
        outside = [getattr(simulation, name) for name in names]
        with process_kept(), _signals(self._handlers):
            if self._environ is not None:
                _replace_environment(self._environ)
                self._modules.resume()
            for name, value in zip(names, self._kept, strict=True):
                setattr(simulation, name, value)
            sit(self._seat)
            try:
                yield
            finally:
                self._environ = dict(os.environ)
                self._kept = tuple(getattr(simulation, name) for name in names)
                for name, value in zip(names, outside, strict=True):
                    setattr(simulation, name, value)
                sit(None)


@contextlib.contextmanager
def _signals(handlers: dict[int, Any]) -> Iterator[None]:
    """Handlers of a process that stands in a thread, where Python sets none.

    An alarm would go to the judge, and simulated time does not ring it, so that is noted: who
    relies on one cannot be judged by what becomes of it.
    """

    def set_handler(number: int, handler: object) -> object:
        before, handlers[number] = get_handler(number), handler
        return before

    def get_handler(number: int) -> object:
        return handlers.get(number, signal.SIG_DFL)

    def ring(*_: object) -> float:
        note(NO_ALARM)
        return 0

    def set_timer(*_: object) -> tuple[float, float]:
        return ring(), 0.0

    with mock.patch.multiple(
        signal, signal=set_handler, getsignal=get_handler, alarm=ring, setitimer=set_timer
    ):
        yield


def _replace_environment(environ: dict[str, str]) -> None:
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)


def boot_ranks(world: World, ranks: Sequence[Rank]) -> list[BootResult]:
    """Boot ranks that start together; what hangs is ended, and says so.

    Args:
        world: where.
        ranks: all that take part. Those that run already are in the group and boot no more.

    Returns:
        What came of each that booted, in the order of `ranks`.
    """
    layout = Layout.of(ranks[0].engine.config.parallel_config)
    booting = [rank for rank in ranks if not rank.runs_already]
    results = [BootResult(each.engine.name, rank=each.rank) for each in booting]
    processes: list[_Process] = []
    turns = Turns(lambda number: processes[number].turn())
    halls: dict[int, Hall] = {}
    common = Hall(layout)
    bodies = []
    for place, rank in enumerate(booting):
        # Replicas of a dense model are engines of their own, which know nothing of each other.
        hall = common if layout.replicas > 1 else halls.setdefault(id(rank.engine), Hall(layout))
        beside = {each.number for each in booting if hall is common or each.engine is rank.engine}
        twin = world.subject.twin()
        ordinal = world.seat(rank.engine, rank.rank).ordinal
        seat = Seat(hall, rank.number, ordinal, turns.wait)
        processes.append(_Process(world, seat, twin, {*rank.broken}))
        apart = Apart(
            twin,
            twin.fresh,
            functools.partial(results.__setitem__, place),
            rank.cache_root or world.cache_root,
            _passes(turns, seat, beside),
        )
        bodies.append(functools.partial(_boot_rank, world, rank, apart))
    for result, what in zip(results, turns.run(bodies), strict=True):
        if what:
            result.hung = True
            world.tell(f"rank {result.rank} of {result.engine} waits for ever: {what}")
    return results


def _boot_rank(world: World, rank: Rank, apart: Apart) -> None:
    tenants = world.device_of(rank.engine, rank.rank).tenants
    label = f"beside rank {rank.number}"
    tenants[label] = rank.held
    try:
        world.boot(rank.engine, rank.rank, schema=rank.schema, apart=apart)
    finally:
        del tenants[label]


def _passes(turns: Turns, seat: Seat, beside: set[int]) -> Callable[[str], None]:
    """What a pass of a sharded model does: exchange with every rank that boots with this one."""
    came = seat.hall.came

    def meet(what: str) -> None:
        came.setdefault(what, set()).add(seat.rank)
        turns.wait(lambda: beside <= came[what], None, f"the {what}")

    return meet


SHARED: Final = ("AABB", "BBAA", "ABAB", "BABA", "ABBA", "BAAB")
"""Every order in which two engines of one process look up and save."""


@final
class OneProcess:
    """A process in which engines boot, one after the other or at once in threads.

    Args:
        world: where.
    """

    def __init__(self, world: World) -> None:
        """Nothing of the subject is executed yet."""
        self._world = world
        self._subject = world.subject.twin()
        self._module: ModuleType | None = None

    def _modules(self) -> ModuleType:
        if self._module is None:
            self._module = self._subject.fresh()
        return self._module

    def boot(self, engines: Sequence[Engine], order: str) -> list[BootResult]:
        """Boot engines, each in a thread.

        Args:
            engines: "A", "B" and so on.
            order: whose turn it is, twice for each: to look up, and to save.
        """
        world, left = self._world, list(order)
        results = [BootResult(engine.name) for engine in engines]
        turns = Turns(lambda number: processes[number].turn())
        processes = [
            _Process(world, _seat_of(world, engine, turns), self._subject, set())
            for engine in engines
        ]

        def live(number: int) -> None:
            letter = order_letters[number]

            def await_turn() -> None:
                turns.wait(lambda: left[0] == letter, None, "its turn")

            def meet(what: str) -> None:
                if what == "profile run":
                    left.pop(0)
                    await_turn()

            begun = functools.partial(results.__setitem__, number)
            await_turn()
            try:
                apart = Apart(self._subject, self._modules, begun, world.cache_root, meet)
                world.boot(engines[number], apart=apart)
            finally:
                # A boot that ended early leaves its other turns to the others.
                left[:] = [each for each in left if each != letter]

        order_letters = sorted(set(order))
        turns.run([functools.partial(live, number) for number in range(len(engines))])
        return results


def _seat_of(world: World, engine: Engine, turns: Turns) -> Seat:
    """The seat of the only rank of an engine."""
    hall = Hall(Layout.of(engine.config.parallel_config))
    return Seat(hall, 0, world.seat(engine, 0).ordinal, turns.wait)
