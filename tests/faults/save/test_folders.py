# SPDX-License-Identifier: Apache-2.0
"""Folders that are missing, and who may read what a save has written."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.controls import USERS
from startup_plan.harness.operations.save_trial import NEW, OLD, SaveTrial
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.world import World
from startup_plan.support.scratch import fastest_folder, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.subject import Subject

NOBODY: Final = 65534
UMASKS: Final = (0o022, 0o077, 0o002, 0o000)


@pytest.mark.parametrize("below", ["", "a", "a/b/c"], ids=["root", "nested", "deep"])
@pytest.mark.requirement("SAVE-08")
def test_missing_folders_are_created(world: World, tally: Tally, below: str) -> None:
    """A save creates the cache root, and what is missing above and below it."""
    root = os.path.dirname(world.cache_root)
    world.cache_root = os.path.join(root, below, "cache")
    with _umask(0o022):
        saved = world.boot(Engine(), suggestion=NEW)
        applied = world.boot(Engine()).applied
    closed = [folder for folder, _, _ in os.walk(root) if not os.stat(folder).st_mode & 0o001]
    tally(boots=world.boots)

    head = f"the cache root{f' and {below} above it' if below else ''} did not exist"
    if saved.raised is not None or applied != NEW:
        end = f"{gib(NEW)} were saved; the next boot applied {gib(applied)}"
        raise Violation("SAVE-08", f"{head}; {end}")
    # The folder that the test itself has made is nobody else's.
    if names := sorted(os.path.relpath(folder, root) for folder in closed if folder != root):
        end = f"under umask 022 the save created {names[0]} so that no other user may enter it"
        raise Violation("SAVE-08", f"{head}; {end}")


@pytest.mark.requirement("SAVE-08")
def test_the_mode_of_a_plan_is_0666_less_the_umask(
    world: World, tally: Tally, over_old: bool
) -> None:
    """The umask of the saving process alone decides who may read its plan."""
    trial = SaveTrial(world, over_old=over_old)
    for umask in UMASKS:
        with _umask(umask):
            trial.save()
        mode = os.stat(trial.plan).st_mode & 0o7777
        if mode != 0o666 & ~umask:
            raise Violation(
                "SAVE-08",
                f"{trial.setting}; a save under umask {umask:03o} left the plan in mode "
                f"{mode:04o} instead of {0o666 & ~umask:04o}",
            )
    tally(boots=world.boots)


@pytest.mark.needs("root")
@pytest.mark.control(USERS)
@pytest.mark.requirement("SAVE-08")
def test_a_rank_of_another_user_can_apply_a_plan(subject: Subject, tally: Tally) -> None:
    """Under umask 022, what root saved is applied by a process of user nobody."""
    with scratch_folder(fastest_folder()) as folder, World(subject, folder) as world:
        folder.chmod(0o755)
        with _umask(0o022):
            trial = SaveTrial(world, over_old=True)
            trial.save()
        with _user(NOBODY):
            booted = trial.next_boot()
        tally(boots=world.boots)

    if booted.applied != NEW:
        raise Violation(
            "SAVE-08",
            f"root saved {gib(OLD)}, then {gib(NEW)}, under umask 022; a rank that runs as nobody "
            f"applied {gib(booted.applied)}",
        )


@contextlib.contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def _user(number: int) -> Iterator[None]:
    """Be another user, as far as the file system can tell, until the end."""
    groups = os.getgroups()
    try:
        os.setgroups([number])
    except PermissionError as error:
        pytest.skip(f"root may not change its groups here: {error}")
    try:
        os.setegid(number)
        os.seteuid(number)
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
