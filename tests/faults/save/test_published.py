# SPDX-License-Identifier: Apache-2.0
"""What fails once the plan is in place: folder fsync, close, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation, reached
from startup_plan.harness.operations.faults import fail_at
from startup_plan.harness.operations.save_trial import NEW, SaveTrial, errors
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-10")
def test_what_fails_after_the_plan_is_in_place_is_no_failure(
    world: World, tally: Tally, over_old: bool, persistent: bool
) -> None:
    """Whatever fails after publishing, the plan stays, and nothing is raised or called failed."""
    trial, tried = SaveTrial(world, over_old=over_old), 0
    if not trial.published:
        raise NeverReachedError("an operation that puts the plan in its place")
    for name in errors():
        words = trial.words_of_failure(name)
        for attempt in trial.each(
            lambda n, name=name: fail_at(trial.root, n, name, persistent),  # type: ignore[misc]
            f"{name} of {{}}",
            trial.published + 1,
        ):
            tried += 1
            if end := _complaint(trial, attempt.result, words):
                raise Violation(
                    "SAVE-10",
                    f"{trial.setting}, {gib(NEW)} are saved; after the plan was in place, "
                    f"{attempt.label}; {end}",
                )
    tally(faults=tried, boots=world.boots)

    reached(tried, "an operation after the plan was in place")


def _complaint(trial: SaveTrial, result: BootResult, words: frozenset[str]) -> str:
    """What is wrong with a save that had put its plan in place, "" if nothing is."""
    if result.raised is not None:
        return f"it raised {trial.brief(result.raised)}"
    if line := trial.told_of_failure(words):
        return f'it logged "{line}"'
    applied = trial.next_boot().applied
    return "" if applied == NEW else f"the next boot applied {gib(applied)}"
