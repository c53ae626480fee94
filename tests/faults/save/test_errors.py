# SPDX-License-Identifier: Apache-2.0
"""Saves of which one operation fails: each in turn, for a moment or for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import reached
from startup_plan.harness.operations.operation import REMOVES
from startup_plan.harness.operations.save_trial import NEW, SaveTrial, errors
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from startup_plan.harness.operations.save_trial import Attempt
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("SAVE-01")
def test_no_failing_operation_makes_a_save_raise(
    world: World, tally: Tally, over_old: bool, persistent: bool
) -> None:
    """Whichever operation of a save fails, and with whichever error, nothing is raised."""
    trial = SaveTrial(world, over_old=over_old)
    tried = _judge("SAVE-01", trial, tally, _failed(trial, persistent=persistent), _raised)

    reached(tried >= len(errors()), "an operation of a save that can fail")


@pytest.mark.requirement("SAVE-01")
def test_a_full_disk_does_not_make_a_save_raise(world: World, tally: Tally, over_old: bool) -> None:
    """Where everything that takes space fails and the rest works, nothing is raised."""
    trial = SaveTrial(world, over_old=over_old)
    tried = _judge("SAVE-01", trial, tally, _on_a_full_disk(trial), _raised)

    reached(tried >= 2, "an operation of a save that a full disk refuses")


@pytest.mark.requirement("SAVE-02")
def test_a_failed_save_leaves_the_old_plan_as_it_was(
    world: World, tally: Tally, persistent: bool
) -> None:
    """After any fault the plan file is byte for byte the old one, or the whole new one."""
    trial = SaveTrial(world, over_old=True)
    tried = _judge("SAVE-02", trial, tally, _failed(trial, persistent=persistent), _damage)

    reached(tried >= len(errors()), "an operation of a save that can fail")


@pytest.mark.requirement("SAVE-02")
def test_a_full_disk_leaves_the_old_plan_as_it_was(world: World, tally: Tally) -> None:
    """Where everything that takes space fails and the rest works, the old plan stays."""
    trial = SaveTrial(world, over_old=True)
    tried = _judge("SAVE-02", trial, tally, _on_a_full_disk(trial), _damage)

    reached(tried >= 2, "an operation of a save that a full disk refuses")


@pytest.mark.requirement("SAVE-03")
def test_a_failed_save_leaves_no_temporary_file(world: World, tally: Tally, over_old: bool) -> None:
    """A save that one failing operation stops has removed what it created."""
    trial = SaveTrial(world, over_old=over_old)
    tried = _judge("SAVE-03", trial, tally, trial.failed(errors()), _litter)

    reached(tried >= len(errors()), "an operation of a save that can fail")


@pytest.mark.requirement("SAVE-03")
def test_a_full_disk_is_left_without_a_temporary_file(
    world: World, tally: Tally, over_old: bool
) -> None:
    """Where everything that takes space fails, removing works, and nothing is left."""
    trial = SaveTrial(world, over_old=over_old)
    tried = _judge("SAVE-03", trial, tally, _on_a_full_disk(trial), _litter)

    reached(tried >= 2, "an operation of a save that a full disk refuses")


def _judge(
    requirement: str,
    trial: SaveTrial,
    tally: Tally,
    attempts: Iterator[Attempt],
    complaint: Callable[[SaveTrial, Attempt], str],
) -> int:
    """Count the attempts, and raise the first about which there is something to complain."""
    tried, offenders = 0, []
    for attempt in attempts:
        tried += 1
        if what := complaint(trial, attempt):
            offenders.append(f"{attempt.label}: {what}")
    tally(faults=tried, boots=trial.world.boots)
    trial.blame(requirement, offenders, tried)
    return tried


def _failed(trial: SaveTrial, *, persistent: bool) -> Iterator[Attempt]:
    """Operations that fail instead of happening, and such as have happened when they fail."""
    yield from trial.failed(errors(), persistent=persistent)
    yield from trial.failed(errors()[:2], persistent=persistent, after_effect=True)


def _on_a_full_disk(trial: SaveTrial) -> Iterator[Attempt]:
    return trial.failed(("ENOSPC", "EDQUOT"), persistent=True, matching=lambda o: o.takes_space)


def _raised(trial: SaveTrial, attempt: Attempt) -> str:
    raised = attempt.result.raised
    return "" if raised is None else f"the save raised {trial.brief(raised)}"


def _litter(trial: SaveTrial, attempt: Attempt) -> str:
    # What cannot be removed stays; that is not a save that failed.
    left = [] if attempt.fault.hit.name in REMOVES else trial.leftovers()
    return f"{len(left)} temporary file was left" if left else ""


def _damage(trial: SaveTrial, _: Attempt) -> str:
    """What is wrong with the plan after a save over `OLD` that a fault hit, "" if nothing is."""
    if trial.is_unchanged:
        return ""
    there = trial.plan_bytes() is not None
    applied = trial.next_boot().applied
    if applied == NEW:
        return ""
    state = "was changed" if there else "is gone"
    return f"the plan file {state}, and the next boot applied {gib(applied)}"
