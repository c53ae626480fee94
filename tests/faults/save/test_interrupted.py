# SPDX-License-Identifier: Apache-2.0
"""Saves that something other than an OSError ends: memory runs out, a person presses Ctrl-C."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import reached
from startup_plan.harness.operations.faults import fail_at
from startup_plan.harness.operations.operation import REMOVES
from startup_plan.harness.operations.save_trial import SaveTrial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

INTERRUPTIONS: Final = (KeyboardInterrupt, SystemExit, MemoryError)


def interrupted(trial: SaveTrial, kind: type[BaseException]) -> Iterator[str]:
    """Save with `kind` raised in place of the first operation, then of the second, and so on.

    Operations that take names away are spared: a process that cannot remove its temporary file
    cannot be blamed for leaving it.
    """
    for n in itertools.count(1):
        fault = fail_at(trial.root, n, kind, matching=lambda o: o.name not in REMOVES)
        with contextlib.suppress(*INTERRUPTIONS):
            trial.save(fault)
        if not fault.fired:
            return
        yield f"{kind.__name__} in place of {trial.describe(fault.hit)}"


@pytest.mark.requirement("SAVE-03")
@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_an_interrupted_save_leaves_no_temporary_file(
    world: World, tally: Tally, over_old: bool, kind: type[BaseException]
) -> None:
    """Whatever ends a save, and wherever, nothing stays behind but folders and the plan."""
    trial, tried, offenders = SaveTrial(world, over_old=over_old), 0, []
    for label in interrupted(trial, kind):
        tried += 1
        if left := trial.leftovers():
            offenders.append(f"{label}: {len(left)} temporary file was left")
    tally(faults=tried)

    trial.blame("SAVE-03", offenders, tried, "places")
    reached(tried >= 3, "three operations of a save that can be interrupted")


@pytest.mark.requirement("SAVE-02")
@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_an_interrupted_save_leaves_the_old_plan_or_the_new(
    world: World, tally: Tally, kind: type[BaseException]
) -> None:
    """Whatever ends a save, and wherever, the plan file is the old one or the whole new one."""
    trial, tried, offenders = SaveTrial(world, over_old=True), 0, []
    trial.save()
    new = trial.plan_bytes()
    for label in interrupted(trial, kind):
        tried += 1
        if trial.plan_bytes() not in {trial.start_bytes, new}:
            offenders.append(f"{label}: the plan is neither the old one nor the new one")
    tally(faults=tried)

    trial.blame("SAVE-02", offenders, tried, "places")
    reached(tried >= 3, "three operations of a save that can be interrupted")
