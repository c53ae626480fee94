# SPDX-License-Identifier: Apache-2.0
"""Sixteen processes that save one plan and eight that read it, all at once; some are killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.operations.save_trial import make_old
from startup_plan.harness.races.crowd import Crowd, Size
from startup_plan.harness.races.two_savers import ONE_PID, TwoSavers

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally, WorldFactory
    from startup_plan.harness.world.world import World


SEED: Final = 20_260_816


@pytest.mark.requirement("SAVE-12")
def test_every_reader_in_a_crowd_sees_a_whole_plan(
    world: World, tally: Tally, over_old: bool
) -> None:
    """With many savers, some of them killed, a reader applies what one has saved, or finds none."""
    with Crowd(world, _size(), seed=SEED, over_old=over_old) as crowd:
        came = crowd.run()
        trouble = [*came.trouble, *filter(None, [crowd.last_words()])]
    tally(race_rounds=came.rounds, kills=came.kills)

    if trouble:
        raise Violation("SAVE-12", _story(crowd, trouble))
    reached(came.hits, "a look-up that applied a plan while others saved")
    reached(came.kills, "a saver that was killed in the midst of a save")


@pytest.mark.requirement("SAVE-04")
def test_a_crowd_with_one_process_id_does_no_harm(
    world_factory: WorldFactory, tally: Tally
) -> None:
    """After a crowd of containers on one volume has saved, the whole plan of one is there.

    Whether a crowd comes to an order that does harm is luck, so such an order is looked for first:
    the same subject is to fail the same tests each time.
    """
    with TwoSavers(world_factory(), over_old=True, pids=ONE_PID) as savers:
        for legs in savers.orders():
            met = savers.meet(legs)
            if end := savers.wrong(met):
                raise Violation("SAVE-04", savers.tell(met, legs, end))
    saves = 32 if profiles.is_thorough() else 8
    size = Size(savers=8, saves=saves, readers=0, doomed=0)
    with Crowd(world_factory(), size, seed=SEED + 1, over_old=True, same_pid=True) as crowd:
        came = crowd.run()
        trouble = [*came.trouble, *filter(None, [crowd.last_words()])]
    tally(race_rounds=came.rounds)

    if trouble:
        raise Violation("SAVE-04", _story(crowd, trouble))
    reached(came.rounds >= size.savers, "a save of each process")


@pytest.mark.requirement("SAVE-03")
def test_what_a_crowd_leaves_is_swept_by_a_later_save(world: World, tally: Tally) -> None:
    """However many savers were killed, one save more than an hour later removes all remains."""
    savers = 16 if profiles.is_thorough() else 8
    size = Size(savers=savers, saves=3, readers=0, doomed=savers)
    with Crowd(world, size, seed=SEED + 2, over_old=True) as crowd:
        came = crowd.run()
        remains = crowd.leftovers()
        make_old(remains)
        crowd.save_once_more()
        left = crowd.leftovers()
    tally(race_rounds=came.rounds, kills=came.kills)

    if left:
        raise Violation(
            "SAVE-03",
            f"{crowd.setting}; {len(remains)} files were left beside the plan; a save over an hour "
            f"later left {len(left)} of them",
        )
    reached(came.kills, "a saver that was killed in the midst of a save")


def _size() -> Size:
    return Size() if profiles.is_thorough() else Size(savers=8, saves=4, readers=4, doomed=3)


def _story(crowd: Crowd, trouble: list[str]) -> str:
    more = f" (and {len(trouble) - 1} more such)" if len(trouble) > 1 else ""
    return f"{crowd.setting}; {trouble[0]}{more}"
