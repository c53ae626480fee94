# SPDX-License-Identifier: Apache-2.0
"""An error from any operation that a look-up makes is a miss."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.faults import fail_at
from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world.fake_disk import fake_world
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan
from startup_plan.support.isolated import drop_override

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.subject import Subject
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("LOAD-06")

ERRORS: Final = (
    "EACCES", "EPERM", "EIO", "ESTALE", "ENOENT", "EMFILE", "ENFILE", "ENOTDIR", "ELOOP", "EBUSY",
    "ENOMEM", "ETIMEDOUT", "EOVERFLOW", "ENAMETOOLONG", "EAGAIN", "EUCLEAN",
)  # fmt: skip
"""What file systems, local and remote, answer to an open, a look or a read."""

READS: Final = frozenset(
    ("access", "close", "fstat", "lstat", "open", "pread", "read", "readlink", "stat")
)
MOST_OPERATIONS: Final = 200


@pytest.mark.parametrize("stays", [False, True], ids=["once", "from then on"])
def test_an_error_of_any_operation_is_a_miss(world: World, tally: Tally, stays: bool) -> None:
    """Each operation on a plan that is whole and in place fails in turn, with every error."""
    engine = plain_engine()
    saved = save_plan(world, engine)

    def reads_the_plan(operation: Operation) -> bool:
        return (
            operation.path == saved.path
            and operation.name in READS
            and not operation.opens_for_writing
        )

    offenders = []
    with Reader(world, engine) as reader:
        for error in ERRORS:
            for number in range(1, MOST_OPERATIONS):
                fault = fail_at(world.cache_root, number, error, stays, reads_the_plan)
                reading = reader.look(fault)
                if not fault.fired:
                    break
                tally(faults=1)
                # By then all has been read: whether a failed close makes a miss is left open.
                tolerated = fault.hit.name == "close" and reading.applied == saved.kv_bytes
                if not (reading.missed or tolerated):
                    offenders.append(f"{error} from {fault.hit.name}: {reading}")

    if offenders:
        what = "an operation and all after it failed" if stays else "one operation failed"
        raise Violation("LOAD-06", f"{saved}; {what}; {'; '.join(offenders)}")


def _close(path: str) -> None:
    os.chmod(path, 0)


def _take_away(path: str) -> None:
    os.rename(path, f"{path}.away")


def _put_a_file(path: str) -> None:
    _take_away(path)
    with open(path, "wb") as stream:
        stream.write(b"no folder")


def _put_a_loop(path: str) -> None:
    _take_away(path)
    os.symlink(os.path.basename(path), path)


OBSTACLES: Final[dict[str, tuple[Callable[[str], None], int]]] = {
    "the plan may not be read": (_close, 0),
    "its folder may not be entered": (_close, 1),
    "the cache root may not be entered": (_close, 2),
    "a file lies where its folder was": (_put_a_file, 1),
    "a file lies where the cache root was": (_put_a_file, 2),
    "a link to itself lies where its folder was": (_put_a_loop, 1),
    "a link to itself lies where the cache root was": (_put_a_loop, 2),
    "its folder is gone": (_take_away, 1),
    "the cache root is gone": (_take_away, 2),
}
"""What is in the way -> how it comes there, and how many folders above the plan."""


def _put_up(obstacle: str, path: str) -> None:
    put, above = OBSTACLES[obstacle]
    for _ in range(above):
        path = os.path.dirname(path)
    put(path)


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_an_obstacle_on_the_way_is_a_miss(world: World, obstacle: str) -> None:
    """The kernel itself refuses: modes, files in place of folders, loops, missing folders."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    with Reader(world, engine) as reader:
        reader.look()
        _put_up(obstacle, saved.path)
        complaint = _look_apart(reader, drop_override)

    if complaint:
        raise Violation("LOAD-06", f"{saved}; {obstacle}; {complaint}")


def test_no_descriptor_left_is_a_miss(world: World) -> None:
    """The process may open no further file (EMFILE)."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    with Reader(world, engine) as reader:
        reader.look()
        complaint = _look_apart(reader, _use_up_descriptors)

    if complaint:
        raise Violation("LOAD-06", f"{saved}; no descriptor was left; {complaint}")


def _use_up_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))


def _look_apart(reader: Reader, prepare: Callable[[], object]) -> str:
    """What was wrong with a look-up in a process that was prepared for it, or nothing."""
    return reader.look_apart(seconds=20.0, extra_bytes=256 * MIB, prepare=prepare)[0]


@pytest.mark.parametrize("obstacle", [name for name in OBSTACLES if "may not" in name])
def test_another_users_plan_is_a_miss(subject: Subject, obstacle: str) -> None:
    """A user who is not root may not read the plan, enter its folder, or enter the cache root."""
    with fake_world(subject) as world:
        engine = plain_engine()
        saved = save_plan(world, engine)
        with Reader(world, engine) as reader:
            _put_up(obstacle, saved.path)
            reading = reader.look()

    if not reading.missed:
        raise Violation("LOAD-06", f"{saved}; {obstacle}; {reading}")
