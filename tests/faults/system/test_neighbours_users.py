# SPDX-License-Identifier: Apache-2.0
"""A cache root that several users share, with what another of them has left there.

The boot runs as user nobody, in a process of its own; root plays the other user. Whatever it meets,
it applies a plan that somebody has saved, or none, and nothing is raised.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.controls import USERS, become_nobody
from startup_plan.harness.operations.save_trial import NEW, OLD, SaveTrial
from startup_plan.harness.races.two_savers import A_NEIGHBOUR, SHORT, SavingBoot
from startup_plan.harness.stubs.units import MIB, gib
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan
from startup_plan.harness.world.world import World
from startup_plan.support.isolated import run_isolated
from startup_plan.support.scratch import fastest_folder, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.subject import Subject
    from startup_plan.support.isolated import Outcome

SECONDS: Final = 3.0
EXTRA_BYTES: Final = 256 * MIB
UMASKS: Final = (0o022, 0o077, 0o002, 0o000)


class Shared(NamedTuple):
    """A place that nobody shares with somebody else.

    Attributes:
        root: mode of the cache root.
        folder: mode of the plan folder.
        put: what the other user puts in the place of his plan.
        requirement: what the look-up breaks if it raises.
    """

    root: int
    folder: int
    put: Callable[[str], None]
    requirement: str = "LOAD-06"


def _a_plan(path: str) -> None:
    os.chmod(path, 0o644)


def _a_private_plan(path: str) -> None:
    os.chmod(path, 0o600)


def _garbage(path: str) -> None:
    with open(path, "wb") as stream:
        stream.write(b"\xff\xfe\x00garbage")


def _a_folder(path: str) -> None:
    os.unlink(path)
    os.makedirs(os.path.join(path, "full"), mode=0o755)


def _a_pipe(path: str) -> None:
    os.unlink(path)
    os.mkfifo(path)
    os.chmod(path, 0o666)  # noqa: S103  # anybody may wait at it


def _a_link_to_a_private_file(path: str) -> None:
    os.rename(path, f"{path}.private")
    os.chmod(f"{path}.private", 0o600)
    os.symlink(f"{path}.private", path)


SHARED: Final = {
    "a plan in a sticky folder": Shared(0o1777, 0o1777, _a_plan),
    "a private plan in a sticky folder": Shared(0o1777, 0o1777, _a_private_plan),
    "garbage in a sticky folder": Shared(0o1777, 0o1777, _garbage, "LOAD-01"),
    "a folder for the plan in a sticky folder": Shared(0o1777, 0o1777, _a_folder, "LOAD-04"),
    "a pipe for the plan in a sticky folder": Shared(0o1777, 0o1777, _a_pipe, "LOAD-04"),
    "a link to a private file in a sticky folder": Shared(
        0o1777, 0o1777, _a_link_to_a_private_file
    ),
    "a plan in an open folder": Shared(0o777, 0o777, _a_plan),
    "a private plan in an open folder": Shared(0o777, 0o777, _a_private_plan),
    "a pipe for the plan in an open folder": Shared(0o777, 0o777, _a_pipe, "LOAD-04"),
    "a plan in a folder that one may only read": Shared(0o755, 0o755, _a_plan),
    "a plan in a folder that one may not enter": Shared(0o755, 0o700, _a_plan),
    "a plan below a cache root that one may not enter": Shared(0o700, 0o755, _a_plan),
}


@pytest.mark.needs("root")
@pytest.mark.control(USERS)
@pytest.mark.requirement("SAVE-01", "LOAD-01", "LOAD-04", "LOAD-06")
@pytest.mark.parametrize("where", SHARED)
def test_what_another_user_has_left_stops_nobody(
    subject: Subject, tally: Tally, where: str
) -> None:
    """In a place that belongs to somebody else a boot neither raises nor waits."""
    shared = SHARED[where]
    with scratch_folder(fastest_folder()) as folder, World(subject, folder) as world:
        folder.chmod(0o755)
        engine = plain_engine()
        # The boot finds less memory free than he did, so that it saves whatever it can read.
        saved = save_plan(world, engine, OLD)
        boot = SavingBoot(world, engine, SHORT, A_NEIGHBOUR)
        with Reader(world, engine) as reader:
            shared.put(saved.path)
            os.chmod(world.plan_folder, shared.folder)
            os.chmod(world.cache_root, shared.root)
            looked = _as_nobody(lambda: _look(reader))
            saving = _as_nobody(lambda: _save(boot)) if looked.kind == "returned" else None
    tally(boots=1 + (saving is not None))

    story = f"there is {where}, and it belongs to another user"
    if looked.kind != "returned":
        raise Violation(shared.requirement, f"{story}; the look-up {looked}")
    fine, what = looked.value
    if not fine:
        raise Violation(shared.requirement, f"{story}; {what}")
    if saving is not None and saving.kind != "returned":
        raise Violation("SAVE-01", f"{story}; {what}; the save {saving}")


@pytest.mark.requirement("SAVE-08")
@pytest.mark.parametrize("umask", UMASKS, ids=oct)
def test_new_folders_are_open_to_whom_the_umask_admits(
    world: World, tally: Tally, umask: int
) -> None:
    """Whoever may read a new plan may also pass the folders that its save has created."""
    before = os.umask(umask)
    try:
        trial = SaveTrial(world, over_old=False)
    finally:
        after = os.umask(before)
    modes = {
        path: stat.S_IMODE(os.stat(path).st_mode) for path in (world.cache_root, world.plan_folder)
    }
    tally(boots=world.boots)

    for path, mode in modes.items():
        if mode & 0o111 != 0o111 & ~umask:
            raise Violation(
                "SAVE-08",
                f"{trial.setting}; {gib(NEW)} were saved under umask {umask:03o}; the save created "
                f"{os.path.basename(path)} in mode {mode:04o}",
            )
    if after != umask:
        raise Violation("SAVE-08", f"a save left umask {after:03o} to its process, not {umask:03o}")


def _as_nobody(call: Callable[[], object]) -> Outcome:
    return run_isolated(call, seconds=SECONDS, extra_bytes=EXTRA_BYTES, prepare=become_nobody)


def _look(reader: Reader) -> tuple[bool, str]:
    """Whether a look-up applied what somebody has saved, or nothing; and what it did."""
    reading = reader.look()
    return reading.missed or (reading.raised is None and reading.applied == OLD), str(reading)


def _save(boot: SavingBoot) -> None:
    """Boot as far as the save, and save."""
    boot.get_ready()
    boot.save()
