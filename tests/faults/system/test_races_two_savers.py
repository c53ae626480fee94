# SPDX-License-Identifier: Apache-2.0
"""Two containers that save one plan at the same time, each with process id 1, in every order.

A stops before one of its operations, B goes on until it is about to make one of its own or to its
end, A comes to its end, and then B does. Orders that differ only by operations which nobody else
can notice count as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.races.two_savers import ONE_PID, TwoSavers

if TYPE_CHECKING:
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
    assert tried >= 4
