# SPDX-License-Identifier: Apache-2.0
"""Power losses at every point of a save, under every persistence model (SAVE-06, SAVE-07)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.power_loss.models import parse_state
from startup_plan.harness.power_loss.trial import WORKLOADS, CrashTrial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.power_loss.models import StateId
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

CUTS: Final = 12
"""Places at which the data of a write is cut, in profiles for the inner loop."""

ENOUGH: Final = 1500
"""Distinct disks after which a subject that has broken its promise is not tried any further."""


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(
    "requirement",
    [pytest.param(id_, marks=pytest.mark.requirement(id_)) for id_ in ("SAVE-06", "SAVE-07")],
)
def test_every_power_loss_leaves_what_was_promised(
    requirement: str,
    workload: str,
    world: World,
    fresh_folder: Callable[[], Path],
    pytestconfig: pytest.Config,
    tally: Tally,
) -> None:
    """Every legal disk holds the plan once a save has returned, and until then the old or the new.

    The first broken promise is the story.
    """
    wanted: StateId | None = None
    text = pytestconfig.getoption("--gate-state")
    if text is not None:
        wanted = parse_state(text)
        if wanted is None or wanted.workload != workload:
            pytest.skip("another crash state was asked for")
    # A single state may be any one; the inner loop tries few of the places where data is cut.
    cuts = None if profiles.is_thorough() or wanted is not None else CUTS
    trial = CrashTrial(world, workload, fresh_folder(), cuts=cuts)
    broken: list[tuple[StateId, str]] = []
    for found in trial.judge(requirement, wanted):
        broken.append(found)
        if trial.tried > ENOUGH:
            break
    tally(crash_states=trial.tried)
    for (model, verdict), count in trial.counts.items():
        tally(**{f"crash_{model}_{verdict}": count})

    if broken:
        state, why = broken[0]
        raise Violation(
            requirement,
            f"{why}; {state} ({len(broken)} such states among those of {trial.tried} disks)",
        )
