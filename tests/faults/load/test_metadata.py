# SPDX-License-Identifier: Apache-2.0
"""What a file system says about a plan besides its bytes: times, links, mode and owner.

Volumes are shared between hosts whose clocks differ, between users, and with backups that keep
hard links. A plan is known by its bytes.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan
from startup_plan.harness.world.world import World
from startup_plan.support.isolated import run_isolated
from startup_plan.support.scratch import fastest_folder, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.reader import Reading, Saved
    from startup_plan.harness.world.subject import Subject

pytestmark = pytest.mark.requirement("LOAD-09")

_DAY: Final = 86_400
_NOBODY: Final = 65534
_SECONDS: Final = 3.0
_EXTRA_BYTES: Final = 256 * MIB


def _dated(seconds: float) -> Callable[[str], object]:
    """Written so many seconds from now."""

    def change(path: str) -> None:
        then = time.time() + seconds
        os.utime(path, (then, then))

    return change


def _hard_linked(*beside: str) -> Callable[[str], object]:
    """With a second name for each of these, relative to its folder."""

    def change(path: str) -> None:
        for name in beside:
            other = os.path.join(os.path.dirname(path), name)
            os.makedirs(os.path.dirname(other), exist_ok=True)
            os.link(path, other)

    return change


def _of_mode(mode: int) -> Callable[[str], object]:
    return lambda path: os.chmod(path, mode)


def _owned_by(user: int, group: int) -> Callable[[str], object]:
    return lambda path: os.chown(path, user, group)


CHANGES: Final[dict[str, Callable[[str], object]]] = {
    "is from a clock a minute ahead": _dated(60),
    "is from a clock a day ahead": _dated(_DAY),
    "is from a clock twenty years ahead": _dated(20 * 365 * _DAY),
    "is two hours old": _dated(-7200),
    "is eight days old": _dated(-8 * _DAY),
    "is five weeks old": _dated(-35 * _DAY),
    "is ten years old": _dated(-3650 * _DAY),
    "is from 1970": lambda path: os.utime(path, (0, 0)),
    "was never read since 1970": lambda path: os.utime(path, (0, time.time())),
    "has a hard link in a backup": _hard_linked("../../backup/plan"),
    "has a hard link beside it": _hard_linked("kept"),
    "has three hard links": _hard_linked("../../monday", "../../tuesday", "../../wednesday"),
    "may only be read": _of_mode(0o444),
    "may only be read by its owner": _of_mode(0o400),
    "is its owner's alone": _of_mode(0o600),
    "may be written by its group": _of_mode(0o664),
    "may be written by anybody": _of_mode(0o666),
    "may be executed": _of_mode(0o755),
    "may do anything": _of_mode(0o777),
}
"""What is so about the file of a plan -> how it comes to be so."""

OWNERS: Final = {
    "belongs to nobody": _owned_by(_NOBODY, _NOBODY),
    "belongs to a user that this host does not know": _owned_by(1_234_567, 1_234_567),
    "belongs to another group": _owned_by(-1, 1_234_567),
}
"""The same, of what only root may do."""


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_said_about_a_file_decides_nothing(world: World, tally: Tally, what: str) -> None:
    """A plan is applied whatever its times, links and mode are."""
    _still_applied(world, tally, what, CHANGES[what])


@pytest.mark.needs("root")
@pytest.mark.parametrize("what", OWNERS)
def test_whose_a_file_is_decides_nothing(world: World, tally: Tally, what: str) -> None:
    """A plan is applied whoever owns it."""
    _still_applied(world, tally, what, OWNERS[what])


@pytest.mark.needs("root")
def test_what_another_user_has_written_is_applied(subject: Subject, tally: Tally) -> None:
    """A user applies the plan that another one has written."""
    with scratch_folder(fastest_folder()) as folder, World(subject, folder) as world:
        saved = _applied_before(world)
        os.chmod(saved.path, 0o644)
        # Who may not write there is LOAD-07's matter.
        for place in (folder, world.cache_root, world.plan_folder):
            os.chmod(place, 0o777)  # noqa: S103  # shared on purpose
        with Reader(world, plain_engine()) as reader:
            outcome = run_isolated(
                lambda: _told(reader.look(), saved),
                seconds=_SECONDS,
                extra_bytes=_EXTRA_BYTES,
                prepare=_become_nobody,
            )
    tally(boots=world.boots, examples=1)
    fine, what = outcome.value or (False, f"the look-up {outcome}")

    if not fine:
        raise Violation("LOAD-09", f"{saved} by root; user nobody, who may read it, boots; {what}")


def _told(reading: Reading, saved: Saved) -> tuple[bool, str]:
    return reading.applied == saved.kv_bytes, str(reading)


def _become_nobody() -> None:
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _still_applied(world: World, tally: Tally, what: str, change: Callable[[str], object]) -> None:
    saved = _applied_before(world)
    change(saved.path)
    _look(world, tally, saved, what)


def _applied_before(world: World) -> Saved:
    """A plan that is applied as it was saved; without one there is nothing to keep working."""
    saved = save_plan(world, plain_engine())
    with Reader(world, plain_engine()) as reader:
        reading = reader.look()
    if reading.applied != saved.kv_bytes:
        pytest.skip(f"the plan is not applied as it was saved either: {reading} (BOOT-01)")
    return saved


def _look(world: World, tally: Tally, saved: Saved, what: str) -> None:
    with Reader(world, plain_engine()) as reader:
        reading = reader.look()
    tally(boots=world.boots, examples=1)

    if reading.applied != saved.kv_bytes:
        raise Violation("LOAD-09", f"{saved}; its file {what}; {reading}")
