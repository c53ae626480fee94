# SPDX-License-Identifier: Apache-2.0
"""Real disks that are full or read-only, and one folder that is mounted in two places."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.histories.scenes import tale
from startup_plan.harness.kernel.controls import MOUNTED
from startup_plan.harness.kernel.disks import (
    PAGE,
    bind,
    fill_with_bytes,
    fill_with_files,
    make_read_only,
    mount_memory,
    with_own_mounts,
)
from startup_plan.harness.kernel.trial import damage_of, raised_by
from startup_plan.harness.operations.save_trial import NEIGHBOUR, NEW, OLD, SaveTrial
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

pytestmark = [pytest.mark.needs("mount"), pytest.mark.control(MOUNTED)]


SIZE: Final = 16 * PAGE
INODES: Final = 24
SPARES: Final = range(5)
"""Pages or inodes that are left: from none to enough for a plan."""


class Shortage(NamedTuple):
    """What a disk can run out of."""

    fill: Callable[..., list[str]]
    what: str


SHORTAGES: Final = {
    "space": Shortage(fill_with_bytes, "pages"),
    "inodes": Shortage(fill_with_files, "inodes"),
}


@pytest.mark.parametrize("short_of", SHORTAGES)
@pytest.mark.requirement("SAVE-01", "SAVE-02", "SAVE-03")
def test_a_full_disk_costs_only_the_new_plan(
    world: World, tally: Tally, short_of: str, over_old: bool
) -> None:
    """With no space or no inode left, and with a little: nothing is raised, lost or left."""
    offenders, refused, tried = with_own_mounts(
        lambda: _save_on_a_full_disk(world, SHORTAGES[short_of], over_old=over_old)
    )
    tally(faults_fired=refused, boots=tried)

    for requirement, found in offenders.items():
        if found:
            raise Violation(requirement, "\nalso ".join(found[:4]))
    reached(refused, "a save that a full disk refuses")


def _save_on_a_full_disk(
    world: World, shortage: Shortage, *, over_old: bool
) -> tuple[dict[str, list[str]], int, int]:
    """What was broken, by requirement; how many saves the disk has refused; how many there were."""
    root = os.path.dirname(world.cache_root)
    mount_memory(root, size=SIZE, inodes=INODES)
    trial = SaveTrial(world, over_old=over_old)
    offenders: dict[str, list[str]] = {"SAVE-01": [], "SAVE-02": [], "SAVE-03": []}
    refused = 0
    for spare in SPARES:
        trial.put_back()
        label = f"{trial.setting}; a process saves {gib(NEW)} with {spare} {shortage.what} left"
        fillers = shortage.fill(root, spare=spare)
        if raised := raised_by(trial.save_unseen()):
            offenders["SAVE-01"].append(f"{label}: the save raised {raised}")
        if left := trial.leftovers():
            offenders["SAVE-03"].append(f"{label}: {len(left)} temporary file was left")
        refused += trial.is_unchanged
        for filler in fillers:
            os.unlink(filler)
        if damage := damage_of(trial):
            offenders["SAVE-02"].append(f"{label}: {damage}")
    return offenders, refused, len(SPARES)


@pytest.mark.requirement("SAVE-01", "LOAD-07")
def test_a_read_only_disk_costs_only_the_new_plan(
    world: World, tally: Tally, over_old: bool
) -> None:
    """On a disk that the kernel will not write to, nothing is raised, and a plan is applied."""
    broken, story = with_own_mounts(lambda: _live_on_a_read_only_disk(world, over_old=over_old))
    tally(faults_fired=1, boots=2)

    if broken:
        raise Violation(broken, story)


def _live_on_a_read_only_disk(world: World, *, over_old: bool) -> tuple[str, str]:
    """The requirement that was broken, "" if none was, and how."""
    trial = SaveTrial(world, over_old=over_old)
    trial.put_back()
    bind(trial.root, trial.root)
    make_read_only(trial.root)
    if raised := raised_by(trial.save_unseen()):
        return "SAVE-01", f"{trial.setting}; on a read-only disk, the save raised {raised}"
    booted, legal = trial.next_boot(), OLD if over_old else None
    story = f"{trial.setting}; on a read-only disk, a save failed as it had to; the next {booted}"
    if booted.where == "save":
        return "SAVE-01", story
    return ("", "") if booted.raised is None and booted.applied == legal else ("LOAD-07", story)


@pytest.mark.requirement("LOAD-08")
def test_two_mount_points_of_one_folder_are_one_cache_root(world: World, tally: Tally) -> None:
    """What is saved through one mount point is applied, and replaced, through the other."""
    complaint = with_own_mounts(lambda: _live_at_two_mount_points(world))
    tally(boots=4)

    if complaint:
        raise Violation("LOAD-08", complaint)


def _live_at_two_mount_points(world: World) -> str:
    root = os.path.dirname(world.cache_root)
    places = [os.path.join(root, name) for name in ("store", "here", "there")]
    for place in places:
        os.mkdir(place)
    store, here, there = places
    bind(store, here)
    bind(store, there)
    engine = Engine()

    def boot(place: str, saved: int | None, wanted: int | None) -> str:
        world.cache_root = os.path.join(place, "cache")
        world.tell(f"at {os.path.basename(place)}")
        # With the neighbour, the plan at hand is refused, and another is saved under its key.
        world.devices[0].tenants["neighbour"] = NEIGHBOUR if saved == NEW else 0
        result = world.boot(engine, suggestion=saved)
        if result.raised is not None or result.applied != wanted:
            return tale(world, f"{gib(wanted)} should have been applied")
        return ""

    return (
        boot(here, OLD, None)
        or boot(there, None, OLD)
        or boot(there, NEW, None)
        or boot(here, None, NEW)
    )
