# SPDX-License-Identifier: Apache-2.0
"""Two savers of one plan that are stopped between any two of their operations.

Saver A stops before one of its operations, saver B goes on until it is about to make one of its
own, A comes to its end, and then B does. Everything happens in one process, in a fixed order (see
`sequencer`); each saver has its own worker, its own instance of the subject's modules, and the
process id that the test gives it.

They are told apart by behaviour: A and B save other values, measured at other amounts of free
memory, so that one look-up with all memory free and one with some taken show whose plan lies there
and whether it is the whole of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, final
from unittest import mock

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import NeverReachedError, Violation
from startup_plan.harness.stubs.units import GIB, gib
from startup_plan.harness.world.calls import call
from startup_plan.harness.world.reader import Reader, plain_engine
from startup_plan.harness.world.world import KilledError

from .sequencer import Leg, Theatre, nested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from startup_plan.harness.operations.faults import Trace
    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.reader import Reading
    from startup_plan.harness.world.world import World

    from .sequencer import Played

SHORT: Final = 973_676_417
"""Bytes; nine digits."""

LONG: Final = 16_106_127_361
"""Bytes; eleven digits: written over by `SHORT`, this leaves a tail."""

OLD: Final = 1_610_612_743
"""Bytes that an earlier plan holds; ten digits."""

A_NEIGHBOUR: Final = 2 * GIB
B_NEIGHBOUR: Final = 4 * GIB
"""Bytes of the device that are taken while A, and while B, measures."""

_BETWEEN: Final = 3 * GIB
"""With this much taken B's plan may be applied, and A's may not."""

ONE_PID: Final = (1, 1)
"""Two containers: in each the process is the first."""

TWO_PIDS: Final = (101, 102)
_ELSEWHERE: Final = 100

_NAMES: Final = ("A", "B")

Traits = tuple[Any, Any]
"""What a boot applies with all memory free, and with `_BETWEEN` taken."""


@final
class SavingBoot:
    """A rank that has found no plan to apply and is about to save, as a new process each time.

    Args:
        world: an entered world.
        engine: what boots.
        value: bytes that it saves.
        neighbour: bytes of the device that another process takes.
    """

    def __init__(self, world: World, engine: Engine, value: int, neighbour: int) -> None:
        """Load the weights."""
        self.value = value
        self._world = world
        self._device = world.device_of(engine)
        self._tenants = {**self._device.tenants, "neighbour": neighbour}
        with mock.patch.object(self._device, "tenants", self._tenants):
            self._worker = world.worker(engine)
        self._config = self._worker.vllm_config
        self._pristine = [(thing, dict(vars(thing))) for thing in (self._worker, self._config)]
        self._subject = world.subject.twin()
        self._module: Any = None

    def get_ready(self) -> None:
        """Look up the plan in vain, as every boot does that measures.

        Raises:
            NeverReachedError: that raised, or applied a plan that needs more than is free.
        """
        for thing, state in self._pristine:
            vars(thing).clear()
            vars(thing).update(state)
        self._config.cache_config.kv_cache_memory_bytes = None
        self._module = self._subject.fresh()
        self.step_in()
        try:
            call(self._module.maybe_apply_startup_plan, self._worker)
        except Exception as error:
            raise NeverReachedError(f"a save; the look-up raised {error!r}") from error
        applied = self._config.cache_config.kv_cache_memory_bytes
        if applied is not None:
            raise NeverReachedError(f"a save; the look-up applied {gib(applied)}")

    def step_in(self) -> None:
        """Make this the process that runs: its modules and its memory are what is found."""
        self._subject.resume()
        self._device.tenants = self._tenants
        self._world.simulation.log, self._world.simulation.queries = [], []

    def save(self) -> None:
        """Let the subject save; once more if it is called again."""
        call(self._module.maybe_save_startup_plan, self._worker, self.value)


class Met(NamedTuple):
    """What came of two savers that met.

    Attributes:
        played: what they did, A being player 0.
        traits: what boots apply afterwards.
        inner: the save of B, where the whole life of B lay inside the save of A.
    """

    played: Played
    traits: Traits
    inner: Trace | None = None


@final
class TwoSavers:
    """Two savers that can meet over and over on the same disk. To be entered.

    Args:
        world: an entered world in which nothing has happened.
        over_old: whether an earlier plan lies there.
        a_is_longer: whether A's value has more digits than B's.
        pids: process ids of A and B.

    Attributes:
        root: the folder below which everything happens.
        boots: the savers.
    """

    def __init__(
        self,
        world: World,
        *,
        over_old: bool = False,
        a_is_longer: bool = False,
        pids: tuple[int, int] = ONE_PID,
    ) -> None:
        """Two savers that have not begun."""
        self._world = world
        self._engine = plain_engine()
        self.root = os.path.dirname(world.cache_root)
        values = (LONG, SHORT) if a_is_longer else (SHORT, LONG)
        self.boots = (
            SavingBoot(world, self._engine, values[0], A_NEIGHBOUR),
            SavingBoot(world, self._engine, values[1], B_NEIGHBOUR),
        )
        self._stage = Theatre(self.root)
        self._over_old = over_old
        self._start: dict[str, bytes] = {}
        self._known: dict[object, Traits] = {}
        self._read: dict[object, Reading] = {}
        self._alone: tuple[Traits, ...] = ()
        self._pids, self._pid = pids, _ELSEWHERE
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """See what each saver alone leaves behind.

        Raises:
            NeverReachedError: not even that can be told apart.
        """
        world, device = self._world, self._world.devices[0]
        self._exit.callback(setattr, device, "tenants", device.tenants)
        # What was executed before might hold the real functions of `os`.
        self._exit.enter_context(world.subject.apart())
        self._exit.enter_context(mock.patch.object(os, "getpid", self._getpid))
        self._exit.enter_context(self._stage)
        self._whole = self._exit.enter_context(Reader(world, self._engine))
        self._between = self._exit.enter_context(
            Reader(world, self._engine, free=device.free - _BETWEEN)
        )
        with self._exit:
            self._begin()
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Put back the devices, the modules and the functions of `os`."""
        self._exit.close()

    @property
    def setting(self) -> str:
        """What lies there at the beginning, for a story."""
        return f"a plan of {gib(OLD)} is there" if self._over_old else "no plan is there"

    def stops_of_a(self) -> list[int]:
        """Numbers of the operations before which A is worth stopping."""
        return _worth(self.meet([Leg(0)]).played.players[0].operations)

    def orders(self) -> Iterator[tuple[Leg, ...]]:
        """Every order in which A and B stop once, but for those that come to the same."""
        for stop in self.stops_of_a():
            alone = self.meet([Leg(0, stop), Leg(1)]).played
            yield from nested([stop], _worth(alone.players[1].operations))

    def meet(self, legs: Sequence[Leg], after_leg: Callable[[int], object] | None = None) -> Met:
        """Let A and B save in this order, from the same disk each time."""
        self.get_ready()
        calls = [self.boots[number].save for number in sorted({leg.player for leg in legs})]
        played = self._stage.play(calls, legs, before_turn=self._step_in, after_leg=after_leg)
        return Met(played, self.traits())

    def meet_inside(self, stop: int, inner: Trace) -> Met:
        """Let A save as far as its operation `stop`, B live, and A go on.

        Args:
            stop: number of an operation of A.
            inner: entered around B's save; B may die in it.
        """

        def live() -> None:
            self.boots[1].get_ready()
            # Where B waits for a lock of A, A goes on meanwhile.
            inner.sees = lambda: self._stage.is_acting(1)
            with contextlib.suppress(KilledError), inner:
                self.boots[1].save()

        self.get_ready(only=1)
        played = self._stage.play(
            [self.boots[0].save, live], within(stop), before_turn=self._step_in
        )
        return Met(played, self.traits(), inner)

    def get_ready(self, only: int = 2) -> None:
        """Put the disk back, and let the first, or both, boot until they are about to save."""
        shutil.rmtree(self._world.cache_root, ignore_errors=True)
        for path, data in self._start.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(data)
        for number in range(only):
            self._pid = self._pids[number]
            self.boots[number].get_ready()

    def act_as(self, number: int) -> Callable[[], None]:
        """The whole of a saver as one call, for a process of its own."""

        def act() -> None:
            self._step_in(number)
            self.boots[number].save()

        return act

    def look(self) -> Reading:
        """Boot with all memory free; what has been read from the same disk before is known."""
        self._pid = _ELSEWHERE
        disk = self._disk()
        if disk not in self._read:
            self._read[disk] = self._whole.look()
        return self._read[disk]

    def traits(self) -> Traits:
        """Whose plan lies there, and whether it is the whole of it.

        Raises:
            Violation: a look-up raised.
        """
        self._pid = _ELSEWHERE
        disk = self._disk()
        if disk not in self._known:
            looks = self.look(), self._between.look()
            for reading in looks:
                if reading.raised is not None:
                    raise Violation(None, f"two savers met; then {reading}")
            self._known[disk] = (looks[0].applied, looks[1].applied)
        return self._known[disk]

    def wrong(self, met: Met) -> str:
        """What is wrong with the outcome, "" if nothing is."""
        for name, error in zip(_NAMES, met.played.errors, strict=False):
            if error is not None:
                return f"{name}'s save raised {type(error).__name__}: {str(error)[:120]}"
        if met.played.deadlocked:
            return "one of them waits for ever"
        died = met.inner is not None and met.inner.fired
        if met.traits in self._alone or (died and met.traits == self._before):
            return ""
        whole, between = met.traits
        return (
            f"then a boot applied {gib(whole)}, and {gib(between)} with less memory free: "
            "the file is not the whole plan of A, nor that of B"
        )

    def tell(self, met: Met, legs: Sequence[Leg], end: str, first: int = 0) -> str:
        """The story of a meeting, told by `legs`, of which the first was leg number `first`."""
        pids = "with one process id" if len(set(self._pids)) == 1 else "with two process ids"
        values = tuple(gib(boot.value) for boot in self.boots)
        parts = [f"{self.setting}; A saves {values[0]} and B {values[1]}, {pids}"]
        ended = set()
        for leg, stop in zip(legs, met.played.stops[first:], strict=False):
            if leg.player in ended:
                continue
            if stop is None:
                ended.add(leg.player)
            where = "came to its end" if stop is None else f"stopped before {self.describe(stop)}"
            if leg.player == 1 and met.inner is not None and met.inner.fired:
                where = f"stopped for good before {self.describe(met.inner.hit)}"
            parts.append(f"{_NAMES[leg.player]} {where}")
        return "; ".join([*parts, end])

    def describe(self, operation: Operation) -> str:
        """An operation in words that are the same in every run, whatever names it uses."""
        what = self._what(operation.path)
        if operation.target:
            what = f"{what} to {self._what(operation.target)}"
        return f"its {operation.name} of {what}"

    def _what(self, path: str) -> str:
        if path == self._world.plan_folder:
            return "the plan folder"
        if path == self.root or self._world.cache_root.startswith(path):
            return "a folder above"
        return "the plan" if path in self._plans else "a temporary file"

    def _begin(self) -> None:
        if self._over_old:
            old = SavingBoot(self._world, self._engine, OLD, 0)
            old.get_ready()
            old.save()
            self._start = _files(self._world.cache_root)
        self.get_ready(only=0)
        self._before = self.traits()
        self._alone = (self.meet([Leg(0)]).traits, self._only_b())
        self._plans = set(self._world.plans())
        if tuple(whole for whole, _ in self._alone) != tuple(boot.value for boot in self.boots):
            raise NeverReachedError(
                "two plans that are applied; "
                + "; ".join(
                    f"{name} alone saved {gib(boot.value)}, then a boot applied {gib(traits[0])}"
                    for name, boot, traits in zip(_NAMES, self.boots, self._alone, strict=True)
                )
            )

    def _only_b(self) -> Traits:
        self.get_ready()
        self.act_as(1)()
        return self.traits()

    def _disk(self) -> object:
        """What lies there, whatever names temporary files have."""
        files, plans = _files(self._world.cache_root), set(self._world.plans())
        others = sorted(data for path, data in files.items() if path not in plans)
        return tuple(others), tuple((path, files.get(path)) for path in sorted(plans))

    def _getpid(self) -> int:
        return self._pid

    def _step_in(self, number: int) -> None:
        self._pid = self._pids[number]
        self.boots[number].step_in()


def within(stop: int) -> tuple[Leg, ...]:
    """The order in which the whole of B lies before operation `stop` of A."""
    return (Leg(0, stop), Leg(1), Leg(0))


def _worth(operations: Sequence[Operation]) -> list[int]:
    """Numbers of the operations before which it is worth stopping, from the profile in force.

    A stop before an operation that commutes with everything (fsync, close) is the same as a stop
    before the next one. Where few examples are asked for, looks are left out as well.
    """
    thorough = profiles.is_thorough()
    return [
        found.index
        for found in operations
        if (found.meets_others if thorough else found.changes_files)
    ]


def _files(folder: str) -> dict[str, bytes]:
    """Everything below `folder` but folders, as path -> contents."""
    found = {}
    for inside, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(inside, name)
            with contextlib.suppress(OSError), open(path, "rb") as stream:
                found[path] = stream.read()
    return found
