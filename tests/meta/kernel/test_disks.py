# SPDX-License-Identifier: Apache-2.0
"""Mounts of a child process: as full, as read-only and as private as they are said to be."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.kernel.disks import (
    PAGE,
    bind,
    fill_with_bytes,
    fill_with_files,
    make_read_only,
    mount_memory,
    with_own_mounts,
)
from startup_plan.harness.kernel.trace import KernelError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("mount")


def _write(path: str, size: int) -> int:
    """Bytes that could be written, or minus the error."""
    try:
        with open(path, "wb", buffering=0) as stream:
            return stream.write(bytes(size)) or 0
    except OSError as error:
        return -(error.errno or 0)


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_disk_has_as_many_pages_left_as_it_should(tmp_path: Path, spare: int) -> None:
    """A write takes what fits and no more; where nothing fits, it fails with ENOSPC."""
    folder = str(tmp_path)

    def call() -> tuple[int, int]:
        mount_memory(folder, size=8 * PAGE, inodes=16)
        fillers = fill_with_bytes(folder, spare=spare)
        written = _write(os.path.join(folder, "more"), 8 * PAGE)
        for filler in fillers:
            os.unlink(filler)
        return written, _write(os.path.join(folder, "more"), 5 * PAGE)

    assert with_own_mounts(call) == (spare * PAGE or -errno.ENOSPC, 5 * PAGE)


def test_disk_has_as_many_inodes_left_as_it_should(tmp_path: Path) -> None:
    """Two more files can be made, and no third."""
    folder = str(tmp_path)

    def call() -> list[int]:
        mount_memory(folder, size=8 * PAGE, inodes=16)
        fill_with_files(folder, spare=2)
        return [_write(os.path.join(folder, f"more{number}"), 1) for number in range(3)]

    assert with_own_mounts(call) == [1, 1, -errno.ENOSPC]


def test_read_only_place_refuses_what_its_other_name_allows(tmp_path: Path) -> None:
    """Of two names of one folder, one can be written to, and what is written shows in both."""
    folder, place = str(tmp_path / "folder"), str(tmp_path / "place")
    os.mkdir(folder)
    os.mkdir(place)

    def call() -> tuple[int, int, list[str]]:
        bind(folder, place)
        make_read_only(place)
        return (
            _write(os.path.join(place, "a"), 1),
            _write(os.path.join(folder, "a"), 1),
            os.listdir(place),
        )

    assert with_own_mounts(call) == (-errno.EROFS, 1, ["a"])


def test_mounts_are_seen_by_nobody_else(tmp_path: Path) -> None:
    """What is written to a disk that is mounted here does not lie in the folder afterwards."""
    folder = str(tmp_path)

    def call() -> int:
        mount_memory(folder, size=8 * PAGE, inodes=16)
        return _write(os.path.join(folder, "a"), 1)

    assert (with_own_mounts(call), os.listdir(folder)) == (1, [])


def test_refused_mount_judges_nobody(tmp_path: Path) -> None:
    """What the kernel refuses to mount is an error of its own kind."""
    with pytest.raises(KernelError, match="No such file"):
        with_own_mounts(lambda: bind(str(tmp_path / "nothing"), str(tmp_path)))


def test_violation_comes_back_as_one() -> None:
    """A violation that is found in the child is one here."""

    def call() -> None:
        raise Violation(None, "nothing was stored")

    with pytest.raises(Violation, match="nothing was stored"):
        with_own_mounts(call)
