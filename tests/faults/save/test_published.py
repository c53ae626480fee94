# SPDX-License-Identifier: Apache-2.0
"""What fails once the plan is in place: folder fsync, close, clean-up."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.faults import fail_at
from startup_plan.harness.operations.save_trial import NEW, SaveTrial, errors
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.operations.faults import Trace
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-10")
def test_what_fails_after_the_plan_is_in_place_is_no_failure(
    world: World, tally: Tally, over_old: bool, persistent: bool
) -> None:
    """Whatever fails after publishing, the plan stays, and nothing is raised or called failed."""
    trial, tried = SaveTrial(world, over_old=over_old), 0
    if not trial.published:
        raise Violation("SAVE-10", f"{trial.setting}, {gib(NEW)} are saved; nothing was published")
    for name in errors():
        for n in itertools.count(trial.published + 1):
            fault = fail_at(trial.root, n, name, persistent)
            result = trial.save(fault)
            if not fault.fired:
                break
            tried += 1
            if result.raised is not None:
                raise Violation(
                    "SAVE-10", _story(trial, name, fault, f"it raised {trial.brief(result.raised)}")
                )
            if line := trial.told_of_failure():
                raise Violation("SAVE-10", _story(trial, name, fault, f'it logged "{line}"'))
            if (applied := trial.next_boot().applied) != NEW:
                end = f"the next boot applied {gib(applied)}"
                raise Violation("SAVE-10", _story(trial, name, fault, end))
    tally(faults=tried, boots=world.boots)

    # A save that does nothing after publishing has nothing that could fail.
    assert tried >= len(errors()) or trial.published == len(trial.clean.operations)


def _story(trial: SaveTrial, error: str, fault: Trace, end: str) -> str:
    return (
        f"{trial.setting}, {gib(NEW)} are saved; after the plan was in place, "
        f"{error} of {trial.describe(fault.hit)}; {end}"
    )
