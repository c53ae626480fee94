# SPDX-License-Identifier: Apache-2.0
"""A measurement that leaves no room for the loaded weights forgot a pool, and is not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.save_trial import SaveTrial
from startup_plan.harness.stubs.units import GIB, MIB, gib
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("SAVE-13")

HEAVIER: Final = (0, 6 * GIB, 30 * GIB)
"""By how many bytes the weights differ from the usual ones."""

EXCESS: Final = (1, 150 * MIB, 8 * GIB)
"""Bytes by which the budget is exceeded; never so many that the value alone exceeds it."""


def _weights(trial: SaveTrial) -> int:
    """What the worker knows that its weights take, in bytes."""
    assert trial.outcome.worker is not None
    return trial.outcome.worker.model_runner.model_memory_usage


@pytest.mark.parametrize("heavier", HEAVIER, ids=gib)
def test_what_exceeds_the_budget_with_the_weights_is_not_stored(
    world: World, tally: Tally, over_old: bool, heavier: int
) -> None:
    """A value that exceeds the budget together with the weights is not stored."""
    trial = _trial(world, heavier, over_old=over_old)
    budget, weights = trial.outcome.budget, _weights(trial)
    offenders = []
    for excess in EXCESS:
        value = budget - weights + excess
        trial.save(value=value)
        # What raises without storing anything is SAVE-01's matter.
        if trial.has_changed_plan:
            offenders.append(f"{gib(value)}, {excess} bytes too many, changed the plan file")
    tally(examples=len(EXCESS), boots=world.boots)

    if offenders:
        raise Violation(
            "SAVE-13",
            f"{trial.setting}; of a budget of {gib(budget)} the loaded weights take "
            f"{gib(weights)}; {offenders[0]} ({len(offenders)} of {len(EXCESS)} values)",
        )


@pytest.mark.parametrize("heavier", HEAVIER, ids=gib)
def test_all_that_the_weights_leave_is_stored(
    world: World, tally: Tally, over_old: bool, heavier: int
) -> None:
    """A value that equals the budget together with the weights does not exceed it."""
    trial = _trial(world, heavier, over_old=over_old)
    budget, weights = trial.outcome.budget, _weights(trial)
    _check_stored(trial, budget - weights, f"the loaded weights take {gib(weights)} of it")
    tally(boots=world.boots, examples=1)


def test_weights_that_nobody_knows_are_not_counted(world: World, tally: Tally) -> None:
    """A worker that does not say what its weights take is judged by the rest."""
    trial = _trial(world, 0, over_old=True, shown=False)
    _check_stored(trial, trial.outcome.budget - GIB, "the worker does not say what weights take")
    tally(boots=world.boots, examples=1)


def _trial(world: World, heavier: int, *, over_old: bool, shown: bool = True) -> SaveTrial:
    engine = Engine()
    engine.heavier_weights, engine.shows_weights = heavier, shown
    return SaveTrial(world, over_old=over_old, engine=engine)


def _check_stored(trial: SaveTrial, value: int, weights: str) -> None:
    raised = trial.save(value=value).raised
    if raised is None and not trial.has_changed_plan:
        raise Violation(
            "SAVE-13",
            f"{trial.setting}; the budget is {gib(trial.outcome.budget)}, {weights}; {value} bytes "
            "were handed over, which is not more than that leaves, and not stored",
        )
