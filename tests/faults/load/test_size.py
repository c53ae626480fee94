# SPDX-License-Identifier: Apache-2.0
"""A file larger than a plan can be is a miss, at a cost that does not grow with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan
from startup_plan.support.isolated import run_isolated

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

READ: Final = 128 * KIB
"""A look-up that reads more than this reads the file through: enough for one byte too many, in
blocks of any usual size."""


def _spaces_before(path: str, data: bytes) -> None:
    _write(path, data.rjust(LARGEST + 1))


def _spaces_after(path: str, data: bytes) -> None:
    _write(path, data.ljust(LARGEST + 1))


def _line_feeds_after(path: str, data: bytes) -> None:
    _write(path, data.ljust(LARGEST + 1, b"\n"))


def _more_spaces(path: str, data: bytes) -> None:
    _write(path, data.rjust(512 * KIB))


def _far_more_spaces(path: str, data: bytes) -> None:
    _write(path, data.rjust(3 * MIB))


def _repeated(path: str, data: bytes) -> None:
    _write(path, data * (LARGEST // len(data) + 1))


def _hole(path: str, _data: bytes) -> None:
    _write(path, b"")
    os.truncate(path, GIB)


def _hole_after(path: str, data: bytes) -> None:
    _write(path, data)
    os.truncate(path, GIB)


def _small_hole(path: str, _data: bytes) -> None:
    _write(path, b"")
    os.truncate(path, LARGEST + 1)


def _says_empty(path: str, _data: bytes) -> None:
    """The memory map of the process: a regular file of size 0 that gives far more than 64 KiB."""
    if not os.access("/proc/self/smaps", os.R_OK):
        pytest.skip("this machine has no /proc/self/smaps")
    os.unlink(path)
    os.symlink("/proc/self/smaps", path)


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)


FILES: Final[dict[str, Callable[[str, bytes], None]]] = {
    "the plan behind spaces, 64 KiB and 1 byte": _spaces_before,
    "the plan and spaces, 64 KiB and 1 byte": _spaces_after,
    "the plan and line feeds, 64 KiB and 1 byte": _line_feeds_after,
    "the plan behind spaces, 512 KiB": _more_spaces,
    "the plan behind spaces, 3 MiB": _far_more_spaces,
    "the plan over and over, more than 64 KiB": _repeated,
    "64 KiB and 1 byte of zeros": _small_hole,
    "1 GiB of zeros": _hole,
    "the plan and zeros up to 1 GiB": _hole_after,
    "a file of size 0 that is longer than 64 KiB": _says_empty,
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_too_large_is_a_miss_and_costs_little(world: World, file: str) -> None:
    """More than 64 KiB at the plan's path is passed over without being read through."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    with Reader(world, engine) as reader:

        def look() -> tuple[bool, str]:
            reading = reader.look()
            return reading.missed, str(reading)

        # Twice, so that caches of the interpreter are filled as well.
        reader.look()
        reader.look()
        FILES[file](saved.path, saved.data)
        outcome = run_isolated(look, seconds=5.0, extra_bytes=256 * MIB, trace=True)

    complaint = _complaint(outcome)
    if complaint:
        raise Violation("LOAD-05", f"{file} lay in the place of a plan; {complaint}")


def _complaint(outcome: Outcome) -> str:
    """What was wrong with the look-up, or nothing."""
    if outcome.kind != "returned":
        return f"the look-up {outcome}"
    missed, what = outcome.value
    if not missed:
        return str(what)
    if outcome.allocated > EXTRA:
        return f"the look-up took {outcome.allocated / MIB:.1f} MiB of memory"
    if outcome.resident is not None and outcome.resident > EXTRA + RESIDENT_SLACK:
        return f"the look-up made the process grow by {outcome.resident / MIB:.1f} MiB"
    if outcome.read is not None and outcome.read > READ:
        return f"the look-up read {outcome.read} bytes"
    return ""
