# SPDX-License-Identifier: Apache-2.0
"""Saves whose writes take fewer bytes than they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.operations.faults import short_writes
from startup_plan.harness.operations.save_trial import NEW, OLD, SaveTrial
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

TAKEN: Final[dict[str, Callable[[int], int]]] = {
    "nothing": lambda _: 0,
    "one byte": lambda _: 1,
    "half of it": lambda given: max(1, given // 2),
    "all but one byte": lambda given: max(1, given - 1),
}


@pytest.mark.requirement("SAVE-11")
def test_a_short_write_is_completed_or_the_save_fails_cleanly(
    world: World, tally: Tally, over_old: bool
) -> None:
    """After writes cut short, the new plan is whole, or all is as it was before the save."""
    trial, tried = SaveTrial(world, over_old=over_old), 0
    writes = sum(bool(operation.data) for operation in trial.clean.operations)
    for what, taken in TAKEN.items():
        # A caller may go on for ever about a write that never takes anything.
        for times in (1, 2) if what == "nothing" else (1, 2, None):
            tried += _judge(trial, what, taken, times)
    tally(faults=tried, boots=world.boots)

    reached(writes and tried == 11, "a write that can be cut short")


def _judge(trial: SaveTrial, what: str, taken: Callable[[int], int], times: int | None) -> int:
    fault = short_writes(trial.root, taken, times)
    result = trial.save(fault)
    if not fault.fired:
        return 0
    unchanged = trial.is_unchanged
    booted = trial.next_boot()
    start = OLD if trial.start_bytes is not None else None
    completed = not unchanged and booted.applied == NEW
    # Whether it has tidied up is another question (SAVE-03).
    failed_cleanly = unchanged and booted.applied == start
    if result.raised is None and (completed or failed_cleanly):
        return 1
    if result.raised is not None:
        end = f"the save raised {type(result.raised).__name__}"
    else:
        file = "as it was" if unchanged else "gone" if trial.plan_bytes() is None else "changed"
        end = f"the plan file is {file}, and the next boot applied {gib(booted.applied)}"
    often = "every write" if times is None else f"{times} of the writes"
    raise Violation("SAVE-11", f"{trial.setting}, {gib(NEW)} are saved; {often} took {what}; {end}")
