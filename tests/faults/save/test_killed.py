# SPDX-License-Identifier: Apache-2.0
"""Saves that are killed before each of their operations, and what becomes of the remains."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.operations.save_trial import NEIGHBOUR, NEW, OLD, SaveTrial, make_old
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-03")
def test_what_a_killed_save_leaves_is_never_read_as_a_plan(
    world: World, tally: Tally, over_old: bool
) -> None:
    """The next boot applies what lies at the plan's own path, whatever lies beside it."""
    trial, kills = SaveTrial(world, over_old=over_old), 0
    for attempt in trial.killed():
        kills += 1
        unchanged, left = trial.is_unchanged, len(trial.leftovers())
        booted = trial.next_boot()
        legal = (OLD if over_old else None,) if unchanged else (NEW, None)
        if booted.raised is not None or booted.applied not in legal:
            came = (
                f"raised {trial.brief(booted.raised)}"
                if booted.raised
                else f"applied {booted.applied}"
            )
            raise Violation(
                "SAVE-03",
                f"{trial.setting}, the save of {gib(NEW)} was {attempt.label}; the plan file is "
                f"{'as it was' if unchanged else 'changed'}, {left} other file lies there; "
                f"the next boot {came}",
            )
    tally(kills=kills, boots=world.boots)

    reached(kills, "an operation of a save at which it can be killed")


@pytest.mark.requirement("SAVE-03")
def test_what_a_killed_save_leaves_is_removed_once_it_is_an_hour_old(
    world: World, tally: Tally, over_old: bool
) -> None:
    """A save that goes well removes what a killed save left behind more than an hour ago."""
    trial, kills, offenders = SaveTrial(world, over_old=over_old), 0, []
    for attempt in trial.killed():
        kills += 1
        remains = trial.leftovers()
        make_old(remains)
        # With still less memory free, whatever plan lies there is refused, and the boot saves.
        later = trial.save(again=False, neighbour=2 * NEIGHBOUR)
        if later.applied is None and any(os.path.lexists(path) for path in remains):
            offenders.append(
                f"{attempt.label}; over an hour later: {later}, and the remains of the killed save "
                "still lie there"
            )
    tally(kills=kills, boots=world.boots)

    trial.blame("SAVE-03", offenders, kills, "kills")
    reached(kills, "an operation of a save at which it can be killed")
