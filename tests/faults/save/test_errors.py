# SPDX-License-Identifier: Apache-2.0
"""Saves of which one operation fails: each in turn, for a moment or for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.operation import REMOVES
from startup_plan.harness.operations.save_trial import NEW, SaveTrial, errors
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-01")
def test_no_failing_operation_makes_a_save_raise(
    world: World, tally: Tally, over_old: bool, persistent: bool
) -> None:
    """Whichever operation of a save fails, and with whichever error, nothing is raised."""
    trial, tried, offenders = SaveTrial(world, over_old=over_old), 0, []
    for names, after_effect in ((errors(), False), (errors()[:2], True)):
        for attempt in trial.failed(names, persistent=persistent, after_effect=after_effect):
            tried += 1
            if (raised := attempt.result.raised) is not None:
                offenders.append(f"{attempt.label}: the save raised {trial.brief(raised)}")
    tally(faults=tried, boots=world.boots)

    if offenders:
        raise Violation("SAVE-01", _story(trial, offenders, tried))
    assert tried >= len(errors())


@pytest.mark.requirement("SAVE-01")
def test_a_full_disk_does_not_make_a_save_raise(world: World, tally: Tally, over_old: bool) -> None:
    """Where everything that takes space fails and the rest works, nothing is raised."""
    trial, tried, offenders = SaveTrial(world, over_old=over_old), 0, []
    for attempt in trial.failed(("ENOSPC", "EDQUOT"), persistent=True, matching=_takes_space):
        tried += 1
        if (raised := attempt.result.raised) is not None:
            offenders.append(f"{attempt.label}: the save raised {trial.brief(raised)}")
    tally(faults=tried, boots=world.boots)

    if offenders:
        raise Violation("SAVE-01", _story(trial, offenders, tried))
    assert tried >= 2


@pytest.mark.requirement("SAVE-02")
def test_a_failed_save_leaves_the_old_plan_as_it_was(
    world: World, tally: Tally, persistent: bool
) -> None:
    """After any fault the plan file is byte for byte the old one, or the whole new one."""
    trial, tried, offenders = SaveTrial(world, over_old=True), 0, []
    for names, after_effect in ((errors(), False), (errors()[:2], True)):
        for attempt in trial.failed(names, persistent=persistent, after_effect=after_effect):
            tried += 1
            if damage := _damage(trial):
                offenders.append(f"{attempt.label}: {damage}")
    tally(faults=tried, boots=world.boots)

    if offenders:
        raise Violation("SAVE-02", _story(trial, offenders, tried))
    assert tried >= len(errors())


@pytest.mark.requirement("SAVE-02")
def test_a_full_disk_leaves_the_old_plan_as_it_was(world: World, tally: Tally) -> None:
    """Where everything that takes space fails and the rest works, the old plan stays."""
    trial, tried, offenders = SaveTrial(world, over_old=True), 0, []
    for attempt in trial.failed(("ENOSPC", "EDQUOT"), persistent=True, matching=_takes_space):
        tried += 1
        if damage := _damage(trial):
            offenders.append(f"{attempt.label}: {damage}")
    tally(faults=tried, boots=world.boots)

    if offenders:
        raise Violation("SAVE-02", _story(trial, offenders, tried))
    assert tried >= 2


@pytest.mark.requirement("SAVE-03")
def test_a_failed_save_leaves_no_temporary_file(world: World, tally: Tally, over_old: bool) -> None:
    """A save that one failing operation stops has removed what it created."""
    trial, tried, offenders = SaveTrial(world, over_old=over_old), 0, []
    for attempt in trial.failed(errors()):
        tried += 1
        # What cannot be removed stays; that is not a save that failed.
        if attempt.fault.hit.name not in REMOVES and (left := trial.leftovers()):
            offenders.append(f"{attempt.label}: {len(left)} temporary file was left")
    tally(faults=tried, boots=world.boots)

    if offenders:
        raise Violation("SAVE-03", _story(trial, offenders, tried))
    assert tried >= len(errors())


@pytest.mark.requirement("SAVE-03")
def test_a_full_disk_is_left_without_a_temporary_file(
    world: World, tally: Tally, over_old: bool
) -> None:
    """Where everything that takes space fails, removing works, and nothing is left."""
    trial, tried, offenders = SaveTrial(world, over_old=over_old), 0, []
    for attempt in trial.failed(("ENOSPC", "EDQUOT"), persistent=True, matching=_takes_space):
        tried += 1
        if left := trial.leftovers():
            offenders.append(f"{attempt.label}: {len(left)} temporary file was left")
    tally(faults=tried, boots=world.boots)

    if offenders:
        raise Violation("SAVE-03", _story(trial, offenders, tried))
    assert tried >= 2


def _takes_space(operation: Operation) -> bool:
    return operation.takes_space


def _damage(trial: SaveTrial) -> str:
    """What is wrong with the plan after a save over `OLD` that a fault hit, "" if nothing is."""
    if trial.is_unchanged:
        return ""
    there = trial.plan_bytes() is not None
    applied = trial.next_boot().applied
    if applied == NEW:
        return ""
    state = "was changed" if there else "is gone"
    return f"the plan file {state}, and the next boot applied {gib(applied)}"


def _story(trial: SaveTrial, offenders: list[str], tried: int) -> str:
    rest = "".join(f"\nalso {offender}" for offender in offenders[1:4])
    more = f"\nand {len(offenders) - 4} more" if len(offenders) > 4 else ""
    return (
        f"{trial.setting}, {gib(NEW)} are saved; {offenders[0]}"
        f" ({len(offenders)} of {tried} faults){rest}{more}"
    )
