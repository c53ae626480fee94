# SPDX-License-Identifier: Apache-2.0
"""A file larger than a plan can be is a miss, at a cost that does not grow with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.world.world import World
    from startup_plan.support.isolated import Outcome

pytestmark = pytest.mark.requirement("LOAD-05")

KIB: Final = 1024
LARGEST: Final = 64 * KIB
"""Size in bytes of the largest file that may be a plan."""

EXTRA: Final = MIB
"""What a look-up may take of memory, in bytes."""

RESIDENT_SLACK: Final = 4 * MIB
"""Kernels count resident pages per processor and late; Python's own allocations are exact."""

READ: Final = 256 * KIB
"""What a look-up may read in all, in bytes, other plans that it compares with included."""

NEIGHBOURS: Final = 200
"""Plans beside the one that is looked for, each as large as a plan may be."""


def _written(change: Callable[[bytes], bytes], size: int = 0) -> Callable[[str, bytes], None]:
    """What makes the file: changed bytes of the plan, and a hole behind them up to a size."""

    def make(path: str, data: bytes) -> None:
        with open(path, "wb") as stream:
            stream.write(change(data))
            stream.truncate(max(size, stream.tell()))

    return make


def _says_empty(path: str, _data: bytes) -> None:
    """The memory map of the process: a regular file of size 0 that gives far more than 64 KiB."""
    if not os.access("/proc/self/smaps", os.R_OK):
        pytest.skip("this machine has no /proc/self/smaps")
    os.unlink(path)
    os.symlink("/proc/self/smaps", path)


FILES: Final[dict[str, Callable[[str, bytes], None]]] = {
    "the plan behind spaces, 64 KiB and 1 byte": _written(lambda data: data.rjust(LARGEST + 1)),
    "the plan and spaces, 64 KiB and 1 byte": _written(lambda data: data.ljust(LARGEST + 1)),
    "the plan and line feeds, 64 KiB and 1 byte": _written(
        lambda data: data.ljust(LARGEST + 1, b"\n")
    ),
    "the plan behind spaces, 512 KiB": _written(lambda data: data.rjust(512 * KIB)),
    "the plan behind spaces, 3 MiB": _written(lambda data: data.rjust(3 * MIB)),
    "the plan over and over, more than 64 KiB": _written(
        lambda data: data * (LARGEST // len(data) + 1)
    ),
    "64 KiB and 1 byte of zeros": _written(lambda _: b"", LARGEST + 1),
    "1 GiB of zeros": _written(lambda _: b"", GIB),
    "the plan and zeros up to 1 GiB": _written(lambda data: data, GIB),
    "a file of size 0 that is longer than 64 KiB": _says_empty,
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_too_large_is_a_miss_and_costs_little(world: World, file: str) -> None:
    """More than 64 KiB at the plan's path is passed over without being read through."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    with Reader(world, engine) as reader:
        # Twice, so that caches of the interpreter are filled as well.
        reader.look()
        reader.look()
        FILES[file](saved.path, saved.data)
        complaint, outcome = reader.look_apart(seconds=5.0, extra_bytes=256 * MIB, trace=True)

    if complaint := complaint or _cost(outcome):
        raise Violation("LOAD-05", f"{file} lay in the place of a plan; {complaint}")


def test_a_miss_beside_many_plans_costs_little(world: World) -> None:
    """A look-up that finds none of its own reads a bounded part of all that lies there."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    with Reader(world, engine) as reader:
        reader.look()
        reader.look()
        os.unlink(saved.path)
        for number in range(NEIGHBOURS):
            name = f"startup_plan_{number:016x}.json"
            with open(os.path.join(world.plan_folder, name), "wb") as stream:
                stream.write(saved.data.ljust(LARGEST))
        complaint, outcome = reader.look_apart(seconds=5.0, extra_bytes=256 * MIB, trace=True)

    if complaint := complaint or _cost(outcome):
        raise Violation("LOAD-05", f"{NEIGHBOURS} other plans lay in the folder; {complaint}")


def _cost(outcome: Outcome) -> str:
    """What a look-up took too much of, or nothing."""
    if outcome.allocated > EXTRA:
        return f"the look-up took {outcome.allocated / MIB:.1f} MiB of memory"
    if outcome.resident is not None and outcome.resident > EXTRA + RESIDENT_SLACK:
        return f"the look-up made the process grow by {outcome.resident / MIB:.1f} MiB"
    if outcome.read is not None and outcome.read > READ:
        return f"the look-up read {outcome.read} bytes"
    return ""
