# SPDX-License-Identifier: Apache-2.0
"""Saves by a real process, of which the kernel fails or kills each system call in turn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import reached
from startup_plan.harness.kernel.controls import TRACED
from startup_plan.harness.kernel.trace import BOOKKEEPING, REMOVES
from startup_plan.harness.kernel.trial import KernelSave, damage_of
from startup_plan.harness.operations.save_trial import NEW, OLD, SaveTrial, errors, make_old
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.kernel.trace import Call
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

pytestmark = [pytest.mark.needs("ptrace"), pytest.mark.control(TRACED)]

SHARES: Final = 4
"""Parts into which the system calls of a save are divided, so that workers can divide them."""


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.requirement("SAVE-01", "SAVE-02", "SAVE-03")
def test_a_failing_system_call_costs_only_the_new_plan(
    world: World, tally: Tally, over_old: bool, share: int
) -> None:
    """Whichever system call fails: nothing is raised, the old plan stays, nothing else is left."""
    if (share or not over_old) and not profiles.is_thorough():
        pytest.skip("a profile for the inner loop: a part of the system calls is enough")
    offenders: dict[str, list[str]] = {"SAVE-01": [], "SAVE-02": [], "SAVE-03": []}
    kernel, fired = KernelSave(SaveTrial(world, over_old=over_old)), 0
    calls = slice(share, None, SHARES)
    tried = errors() if profiles.is_thorough() else errors()[:1]
    for error in tried:
        for blow in kernel.failed(error, calls):
            fired += 1
            left = kernel.trial.leftovers()
            if blow.raised:
                offenders["SAVE-01"].append(f"{blow.label}: the save {blow.raised}")
            if left and may_clean_up(blow.call):
                offenders["SAVE-03"].append(f"{blow.label}: {len(left)} temporary file was left")
            if damage := damage_of(kernel.trial):
                offenders["SAVE-02"].append(f"{blow.label}: {damage}")
    tally(faults_fired=fired, boots=world.boots)

    for requirement, found in offenders.items():
        kernel.trial.blame(requirement, found, fired)
    reached(fired == len(tried) * len(kernel.clean.calls[calls]), "a fault at every system call")


@pytest.mark.requirement("SAVE-02", "SAVE-03")
def test_a_killed_process_costs_only_the_new_plan(
    world: World, tally: Tally, over_old: bool
) -> None:
    """SIGKILL at any system call leaves the old plan or the new one, and what can be swept up."""
    if not over_old and not profiles.is_thorough():
        pytest.skip("a profile for the inner loop: killed overwrites are enough")
    offenders: dict[str, list[str]] = {"SAVE-02": [], "SAVE-03": []}
    kernel, kills = KernelSave(SaveTrial(world, over_old=over_old)), 0
    trial = kernel.trial
    for blow in kernel.killed():
        kills += 1
        there = "was changed" if trial.plan_bytes() is not None else "is gone"
        unchanged, remains = trial.is_unchanged, trial.leftovers()
        booted = trial.next_boot()
        legal = (OLD, NEW) if over_old else (None, NEW)
        if booted.raised is not None:
            offenders["SAVE-03"].append(f"{blow.label}: the next {booted}")
        elif over_old and booted.applied is None:
            state = "is as it was" if unchanged else there
            offenders["SAVE-02"].append(
                f"{blow.label}: the plan file {state} and the next boot applied nothing"
            )
        elif booted.applied not in legal:
            offenders["SAVE-03"].append(
                f"{blow.label}: the next boot applied {gib(booted.applied)}"
            )
        make_old(remains)
        if remains:
            trial.save(again=False)
        if any(os.path.lexists(path) for path in remains):
            offenders["SAVE-03"].append(
                f"{blow.label}: a save over an hour later leaves its remains there"
            )
    tally(kills=kills, boots=world.boots)

    for requirement, found in offenders.items():
        trial.blame(requirement, found, kills, "kills")
    reached(kills == len(kernel.clean.calls) + 1, "a kill at every system call")


def may_clean_up(call: Call) -> bool:
    """Whether a save that this call has stopped can be asked to leave nothing.

    What cannot be removed stays. And nobody expects the kernel to fail in its own bookkeeping of a
    descriptor: an `open` that does not hand one out, because of that, has no file to speak of.
    """
    return call.name not in REMOVES and call.name not in BOOKKEEPING
