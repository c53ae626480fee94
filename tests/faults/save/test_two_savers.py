# SPDX-License-Identifier: Apache-2.0
"""Two containers on one volume, with one process id, that save the same plan at the same time.

Saver A stops before one of its operations while saver B runs its whole life, or dies in it; then A
goes on. Every operation of A is tried but those that commute with all that another process does,
and every point at which B can stop for good and leave something else behind. Where B waits for a
lock that A holds it stops for good too, because A goes on only after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, final
from unittest import mock

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.faults import intrude_at, kill_at, recording
from startup_plan.harness.operations.save_trial import SaveTrial
from startup_plan.harness.stubs.units import GIB, gib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from startup_plan.harness.operations.faults import Trace
    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World


SHORT: Final = 973_676_417
"""Bytes; nine digits."""

LONG: Final = 16_106_127_361
"""Bytes; eleven digits: written over by the other, this leaves a tail."""

A_NEIGHBOUR: Final = 2 * GIB
B_NEIGHBOUR: Final = 4 * GIB
"""B finds less memory free than A did, so that it refuses A's plan and saves its own."""

BETWEEN: Final = 3 * GIB
"""With this much taken B's plan may be applied and A's may not, so their baselines differ."""

PID: Final = 1

Traits = tuple[int | None, int | None]
"""What a boot applies with all of the device free, and beside `BETWEEN`."""


class Meeting(NamedTuple):
    """What came of two savers that met.

    Attributes:
        a: A's boot.
        b: B's boot.
        a_trace: A's operations; A stopped at its hit.
        b_trace: B's operations; if B died, it did at its hit.
        waited: whether B stopped for good where it waits for a lock of A.
    """

    a: BootResult
    b: BootResult
    a_trace: Trace
    b_trace: Trace
    waited: bool


@final
class Pair:
    """Two savers of one plan.

    Args:
        world: an entered world.
        over_old: whether an earlier plan lies there.
        a_is_longer: whether A's value has more digits than B's.
    """

    def __init__(self, world: World, *, over_old: bool, a_is_longer: bool) -> None:
        """See what each of them alone leaves behind.

        Raises:
            Violation: not even that can be told apart.
        """
        self.trial = SaveTrial(world, over_old=over_old)
        self.values = (LONG, SHORT) if a_is_longer else (SHORT, LONG)
        self._subject_of_b = world.subject.twin()
        self.trial.put_back()
        self._before = self._traits()
        self.trial.save(value=self.values[0], neighbour=A_NEIGHBOUR)
        self._of_a = self._traits()
        self.trial.save(value=self.values[1], neighbour=B_NEIGHBOUR)
        self._of_b = self._traits()
        if (self._of_a[0], self._of_b[0]) != self.values:
            raise Violation(
                None,
                f"A alone saved {gib(self.values[0])} and the next boot applied "
                f"{gib(self._of_a[0])}; B alone saved {gib(self.values[1])} and the next boot "
                f"applied {gib(self._of_b[0])}",
            )

    def meetings(self) -> Iterator[Meeting]:
        """A stops before each operation in turn, and B saves."""
        for n in itertools.count(1):
            met = self._meet(n, recording(self.trial.root))
            if met is None:
                return
            yield met

    def fatal_meetings(self) -> Iterator[Meeting]:
        """A stops before each operation in turn, and B dies before each that changes something."""
        for n in itertools.count(1):
            for stop in itertools.count(1):
                met = self._meet(n, kill_at(self.trial.root, stop, _changes_files))
                if met is None:
                    return
                if not met.b_trace.fired:
                    break
                yield met

    def wrong(self, met: Meeting) -> str:
        """What is wrong after the meeting, "" if nothing is."""
        for name, result in (("A", met.a), ("B", met.b)):
            if result.raised is not None:
                return f"{name}'s save raised {self.trial.brief(result.raised)}"
        traits = self._traits()
        unharmed = (met.b_trace.fired or met.waited) and traits == self._before
        if unharmed or traits in {self._of_a, self._of_b}:
            return ""
        return (
            f"the next boot applied {gib(traits[0])}, and {gib(traits[1])} with less memory free; "
            f"neither A's plan nor B's is there whole"
        )

    def tell(self, met: Meeting, end: str) -> str:
        """The story of the meeting."""
        b = f"B, with the same process id, saved {gib(self.values[1])}"
        if met.b_trace.fired:
            b = f"{b} as far as {self.trial.describe(met.b_trace.hit)} and stopped for good"
        elif met.waited:
            b = f"{b} as far as its wait for a lock and stopped for good"
        return (
            f"{self.trial.setting}; A saved {gib(self.values[0])} as far as "
            f"{self.trial.describe(met.a_trace.hit)}; {b}; A went on; {end}"
        )

    def _meet(self, n: int, b_trace: Trace) -> Meeting | None:
        """Let B live just before the n-th operation of A's save, if there is one."""
        lives: list[BootResult] = []
        waits: list[int] = []

        def lock(fd: int, operation: int) -> None:
            try:
                _flock(fd, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if operation & fcntl.LOCK_NB:
                    raise
                waits.append(fd)
                raise b_trace.die() from None

        def live(_: Operation) -> None:
            with self._in_another_process(), mock.patch.object(fcntl, "flock", lock):
                lives.append(
                    self.trial.save(
                        b_trace, value=self.values[1], neighbour=B_NEIGHBOUR, again=False
                    )
                )

        a_trace = intrude_at(self.trial.root, n, live, _meets_others)
        a = self.trial.save(a_trace, value=self.values[0], neighbour=A_NEIGHBOUR)
        return Meeting(a, lives[0], a_trace, b_trace, bool(waits)) if lives else None

    def _traits(self) -> Traits:
        files = self.trial.files()
        whole = self.trial.next_boot().applied
        if self.trial.files() != files:
            # A boot that found nothing to apply has saved its own measurement.
            return (whole, None)
        return (whole, self.trial.next_boot(BETWEEN).applied)

    @contextlib.contextmanager
    def _in_another_process(self) -> Iterator[None]:
        """Give A its environment, modules and log back after B has used the names for its own."""
        world, simulation = self.trial.world, self.trial.world.simulation
        modules, environ = dict(sys.modules), dict(os.environ)
        log, queries = simulation.log, simulation.queries
        subject_of_a, world.subject = world.subject, self._subject_of_b
        try:
            yield
        finally:
            world.subject = subject_of_a
            simulation.log, simulation.queries = log, queries
            sys.modules.update(modules)
            os.environ.update(environ)


@pytest.mark.requirement("SAVE-04")
def test_a_whole_save_inside_another_does_no_harm(
    world: World, tally: Tally, over_old: bool, a_is_longer: bool
) -> None:
    """Wherever one saver is interrupted by the whole save of another, one whole plan is there."""
    tried = 0
    with _one_pid():
        pair = Pair(world, over_old=over_old, a_is_longer=a_is_longer)
        for met in pair.meetings():
            tried += 1
            if end := pair.wrong(met):
                raise Violation("SAVE-04", pair.tell(met, end))
    tally(interleavings=tried, boots=world.boots)

    assert tried > 0


@pytest.mark.requirement("SAVE-04")
def test_a_save_that_stops_inside_another_does_no_harm(
    world: World, tally: Tally, over_old: bool
) -> None:
    """Wherever the other saver stops for good, one whole plan is there, or the one from before."""
    if not over_old and not profiles.is_thorough():
        pytest.skip("a profile for the inner loop: overwrites are enough")
    tried = 0
    with _one_pid():
        pair = Pair(world, over_old=over_old, a_is_longer=False)
        for met in pair.fatal_meetings():
            tried += 1
            if end := pair.wrong(met):
                raise Violation("SAVE-04", pair.tell(met, end))
    tally(interleavings=tried, boots=world.boots)

    assert tried > 0


@pytest.mark.requirement("SAVE-04")
def test_a_save_does_not_sweep_the_file_of_a_living_saver(
    world: World, tally: Tally, over_old: bool
) -> None:
    """What one saver has created and still needs, another does not remove as litter."""
    tried = 0
    with _one_pid():
        pair = Pair(world, over_old=over_old, a_is_longer=False)
        for met in pair.meetings():
            tried += 1
            stopped = met.a_trace.hit.index
            made = _paths(met.a_trace.operations[: stopped - 1], lambda o: o.may_create)
            swept = _paths(met.b_trace.operations, lambda o: o.name == "unlink")
            if any(not os.path.exists(path) for path in made & swept):
                raise Violation(
                    "SAVE-04", pair.tell(met, "B had removed the file that A was still writing")
                )
    tally(interleavings=tried, boots=world.boots)

    assert tried > 0


_flock: Final = fcntl.flock


def _changes_files(operation: Operation) -> bool:
    return operation.changes_files


def _meets_others(operation: Operation) -> bool:
    return operation.meets_others


def _paths(operations: list[Operation], kind: Callable[[Operation], bool]) -> set[str]:
    """Paths of the operations of one kind that succeeded."""
    return {found.path for found in operations if found.error is None and kind(found)}


@contextlib.contextmanager
def _one_pid() -> Iterator[None]:
    """All processes have one id, as the first process of every container has."""
    with mock.patch.object(os, "getpid", return_value=PID):
        yield
