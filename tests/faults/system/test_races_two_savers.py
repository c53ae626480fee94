# SPDX-License-Identifier: Apache-2.0
"""Two containers that save one plan at the same time, each with process id 1, in every order.

A stops before one of its operations, B goes on until it is about to make one of its own or to its
end, A comes to its end, and then B does. Orders that differ only by operations which nobody else
can notice count as one.

Or B lives its whole life, or a part of it, where A has stopped, for every operation of A but those
that commute with all that another process does.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.operations.faults import kill_at, recording
from startup_plan.harness.races.sequencer import Leg
from startup_plan.harness.races.two_savers import ONE_PID, TwoSavers, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.races.two_savers import Met
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-04")
def test_two_saves_in_any_order_leave_the_whole_plan_of_one(
    world: World, tally: Tally, over_old: bool, a_is_longer: bool
) -> None:
    """Wherever two savers with one process id are stopped, one whole plan is there at the end."""
    tried, offenders = 0, []
    with TwoSavers(world, over_old=over_old, a_is_longer=a_is_longer, pids=ONE_PID) as savers:
        for legs in savers.orders():
            tried += 1
            met = savers.meet(legs)
            if end := savers.wrong(met):
                offenders.append(savers.tell(met, legs, end))
    tally(interleavings=tried)

    if offenders:
        # The last one: there A stands as late as it can, which is the easiest to follow.
        story = f"{offenders[-1]} ({len(offenders)} of {tried} orders)"
        raise Violation("SAVE-04", story)
    reached(tried >= 4, "four orders in which two savers meet")


@pytest.mark.requirement("SAVE-04")
def test_a_whole_save_inside_another_does_no_harm(
    world: World, tally: Tally, over_old: bool, a_is_longer: bool
) -> None:
    """Wherever one saver is interrupted by the whole save of another, one whole plan is there."""
    with TwoSavers(world, over_old=over_old, a_is_longer=a_is_longer, pids=ONE_PID) as savers:
        tried = _judge(savers, _meetings(savers), tally)

    reached(tried, "an operation of a save that meets another process")


@pytest.mark.requirement("SAVE-04")
def test_a_save_that_stops_inside_another_does_no_harm(
    world: World, tally: Tally, over_old: bool
) -> None:
    """Wherever the other saver stops for good, one whole plan is there, or the one from before."""
    if not over_old and not profiles.is_thorough():
        pytest.skip("a profile for the inner loop: overwrites are enough")
    with TwoSavers(world, over_old=over_old, pids=ONE_PID) as savers:
        tried = _judge(savers, _fatal_meetings(savers), tally)

    reached(tried, "an operation of a save that meets another process")


@pytest.mark.requirement("SAVE-04")
def test_a_save_does_not_sweep_the_file_of_a_living_saver(
    world: World, tally: Tally, over_old: bool
) -> None:
    """What one saver has created and still needs, another does not remove as litter."""
    tried = 0
    with TwoSavers(world, over_old=over_old, pids=ONE_PID) as savers:
        for stop, met in _meetings(savers):
            tried += 1
            a, b = met.played.players[0], met.inner
            made = _paths(a.operations[: stop - 1], lambda o: o.may_create)
            swept = _paths(b.operations if b else (), lambda o: o.name == "unlink")
            if any(not os.path.exists(path) for path in made & swept):
                end = "B had removed the file that A was still writing"
                raise Violation("SAVE-04", savers.tell(met, within(stop), end))
    tally(interleavings=tried)

    reached(tried, "an operation of a save that meets another process")


def _stops(savers: TwoSavers) -> list[int]:
    """Numbers of the operations of A that meet others, whatever the profile."""
    alone = savers.meet([Leg(0)]).played.players[0]
    return [found.index for found in alone.operations if found.meets_others]


def _meetings(savers: TwoSavers) -> Iterator[tuple[int, Met]]:
    """A stops before each operation in turn, and B saves."""
    for stop in _stops(savers):
        yield stop, savers.meet_inside(stop, recording(savers.root))


def _fatal_meetings(savers: TwoSavers) -> Iterator[tuple[int, Met]]:
    """A stops before each operation in turn, and B dies before each that changes something."""
    for stop in _stops(savers):
        for n in itertools.count(1):
            death = kill_at(savers.root, n, lambda o: o.changes_files)
            met = savers.meet_inside(stop, death)
            if not death.fired:
                break
            yield stop, met


def _judge(savers: TwoSavers, meetings: Iterator[tuple[int, Met]], tally: Tally) -> int:
    """Count the meetings, and raise the first of which something is wrong."""
    tried = 0
    for stop, met in meetings:
        tried += 1
        if end := savers.wrong(met):
            raise Violation("SAVE-04", savers.tell(met, within(stop), end))
    tally(interleavings=tried)
    return tried


def _paths(operations: Iterable[Operation], kind: Callable[[Operation], bool]) -> set[str]:
    """Paths of the operations of one kind that succeeded."""
    return {found.path for found in operations if found.error is None and kind(found)}
