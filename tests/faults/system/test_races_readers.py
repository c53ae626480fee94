# SPDX-License-Identifier: Apache-2.0
"""A reader between any two operations of one saver, and in every meeting of two.

The savers have a process id each. What a crowd of real processes shows with luck (see
`test_races_crowd.py`), a fixed order shows each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.races.sequencer import Leg
from startup_plan.harness.races.two_savers import OLD, TWO_PIDS, TwoSavers
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from startup_plan.harness.races.two_savers import Met
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-12")
def test_a_reader_in_the_midst_of_a_save_sees_a_whole_plan(
    world: World, tally: Tally, over_old: bool
) -> None:
    """Between any two operations of a save a boot applies the old plan or the new one."""
    with TwoSavers(world, over_old=over_old, pids=TWO_PIDS) as savers:
        last = savers.meet([Leg(0)]).played.players[0].operations[-1].index
        legs = [*(Leg(0, before) for before in range(1, last + 1)), Leg(0)]
        watch = _Watch(savers, over_old=over_old)
        met = savers.meet(legs, after_leg=watch.look)
    tally(race_rounds=len(legs))

    if watch.trouble:
        raise Violation("SAVE-12", watch.story(met, legs))
    reached(last > 1, "a save of more than one operation")


@pytest.mark.requirement("SAVE-12")
def test_a_reader_where_two_savers_meet_sees_a_whole_plan(
    world: World, tally: Tally, over_old: bool, a_is_longer: bool
) -> None:
    """Wherever two savers stand, a boot applies the plan of one of them, or the old one."""
    tried = 0
    with TwoSavers(world, over_old=over_old, a_is_longer=a_is_longer, pids=TWO_PIDS) as savers:
        for legs in savers.orders():
            tried += 1
            watch = _Watch(savers, over_old=over_old)
            met = savers.meet(legs, after_leg=watch.look)
            if not watch.trouble and (end := savers.wrong(met)):
                raise Violation("SAVE-12", savers.tell(met, legs, end))
            if watch.trouble:
                raise Violation("SAVE-12", watch.story(met, legs))
    tally(interleavings=tried, race_rounds=4 * tried)

    reached(tried >= 4, "four orders in which two savers meet")


class _Watch:
    """A boot that looks up the plan whenever the savers stand still, and finds one once it has."""

    def __init__(self, savers: TwoSavers, *, over_old: bool) -> None:
        self._savers = savers
        self._legal = {boot.value for boot in savers.boots} | ({OLD} if over_old else set())
        self._seen = over_old
        self._leg = 0
        self.trouble = ""

    def look(self, leg: int) -> None:
        if self.trouble:
            return
        reading = self._savers.look()
        self._leg = leg
        if reading.raised is not None:
            self.trouble = str(reading)
        elif reading.applied is None:
            if self._seen:
                self.trouble = "then a boot found no plan, where one had been before"
        elif reading.applied not in self._legal:
            self.trouble = f"then a boot applied {gib(reading.applied)}, which nobody saves"
        else:
            self._seen = True

    def story(self, met: Met, legs: Sequence[Leg]) -> str:
        """What had happened when the trouble was seen; of the legs of one saver the last."""
        first = self._leg if len({leg.player for leg in legs}) == 1 else 0
        return self._savers.tell(met, legs[first : self._leg + 1], self.trouble, first)
