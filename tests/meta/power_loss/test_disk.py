# SPDX-License-Identifier: Apache-2.0
"""The crash model: five ways to write a file, and exactly what a power loss leaves of each."""

from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.operations.faults import recording
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.power_loss.disk import UnmodelledError, crash_states
from startup_plan.harness.power_loss.find import UnknownStateError, check_state
from startup_plan.harness.power_loss.models import MODELS, parse_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.power_loss.models import Tree

OLD: Final = b"old" * 30
NEW: Final = b'{"plan": "' + b"n" * 76 + b'"}'
SHAPES: Final = len(NEW) + 3
"""Absent, zeros, garbage, every cut, whole."""


def write_and_replace(folder: str, *, sync_file: bool = False, sync_folder: bool = False) -> None:
    """Write a temporary file beside the plan, and put it in the plan's place."""
    fd = os.open(f"{folder}/t", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, NEW)
    if sync_file:
        os.fsync(fd)
    os.close(fd)
    os.replace(f"{folder}/t", f"{folder}/plan")
    if sync_folder:
        fd = os.open(folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def link_and_replace(folder: str) -> None:
    """Write a file without a name, name it, and put it in the plan's place."""
    fd = os.open(folder, os.O_WRONLY | os.O_TMPFILE)
    os.posix_fallocate(fd, 0, 2 * len(NEW))
    os.write(fd, NEW)
    os.ftruncate(fd, len(NEW))
    os.fsync(fd)
    os.link(f"/proc/self/fd/{fd}", f"{folder}/t", src_dir_fd=fd)
    os.close(fd)
    os.replace(f"{folder}/t", f"{folder}/plan")


def write_in_place(folder: str) -> None:
    """Open the plan for writing and write, as plain code does."""
    with open(f"{folder}/plan", "wb") as stream:
        stream.write(NEW)


def after(
    protocol: Callable[[str], None], folder: Path, model: str, *, over_old: bool
) -> dict[str, int]:
    """What lies at the plan's path in the distinct states after `protocol` is done."""
    root = folder / "d"
    root.mkdir()
    start: Tree = {}
    if over_old:
        (root / "plan").write_bytes(OLD)
        start["plan"] = OLD
    with patched(root), recording(root) as trace:
        protocol(str(root))
    distinct = {
        tuple(sorted(tree.items()))
        for _, done, tree in crash_states("w", start, str(root), trace.operations, MODELS[model])
        if done == len(trace.operations)
    }
    return dict(collections.Counter(_kind(dict(tree).get("plan")) for tree in distinct))


def _kind(data: bytes | None) -> str:
    if data == OLD:
        return "old"
    if data == NEW:
        return "new"
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return "garbage"
    return "none"


def test_a_first_save_without_fsync_may_leave_nothing_whole(tmp_path: Path) -> None:
    """Without fsync the rename may survive alone, and one state in 183 holds the new plan."""
    counts = after(write_and_replace, tmp_path, "ordered", over_old=False)

    assert (SHAPES, counts) == (91, {"none": 181, "new": 1, "garbage": 1})


def test_an_overwrite_without_fsync_may_lose_both_plans(tmp_path: Path) -> None:
    """With the journal in order the old plan can be gone and the new one not be there."""
    counts = after(write_and_replace, tmp_path, "ordered", over_old=True)

    assert counts == {"old": 92, "none": 89, "new": 1, "garbage": 1}


def test_the_replace_rule_of_ext4_protects_an_overwrite_only(tmp_path: Path) -> None:
    """As ext4 is mounted by default, an overwrite keeps old or new; a first save is not helped."""
    overwrite = after(write_and_replace, tmp_path, "ext4", over_old=True)
    first = after(write_and_replace, tmp_path / "d", "ext4", over_old=False)

    assert (overwrite, first) == ({"old": 92, "new": 1}, {"none": 181, "new": 1, "garbage": 1})


def test_fsync_of_the_folder_alone_is_worse_than_none(tmp_path: Path) -> None:
    """It makes the rename durable ahead of the data: the old plan cannot survive at all."""
    counts = after(
        lambda folder: write_and_replace(folder, sync_folder=True),
        tmp_path,
        "ordered",
        over_old=True,
    )

    assert counts == {"none": 89, "new": 1, "garbage": 1}


def test_fsync_of_the_file_leaves_old_or_new(tmp_path: Path) -> None:
    """With the data settled first, every state holds one of the two plans, maybe the old one."""
    counts = after(
        lambda folder: write_and_replace(folder, sync_file=True),
        tmp_path,
        "posix-weak",
        over_old=True,
    )

    assert counts == {"old": 2, "new": 2}


def test_a_file_that_was_linked_is_old_or_new(tmp_path: Path) -> None:
    """A file that had no name when it was written is, once it is renamed, as whole as any other."""
    counts = after(link_and_replace, tmp_path, "ordered", over_old=True)

    assert set(counts) == {"old", "new"}


@pytest.mark.parametrize("model", MODELS)
def test_fsync_of_both_leaves_the_new_plan(tmp_path: Path, model: str) -> None:
    """File, rename, folder: after that every legal state of every model holds the new plan."""
    counts = after(
        lambda folder: write_and_replace(folder, sync_file=True, sync_folder=True),
        tmp_path,
        model,
        over_old=True,
    )

    assert counts == {"new": 1}


def test_writing_in_place_may_leave_anything(tmp_path: Path) -> None:
    """A plan that is cut to nothing and written again can be old, new, empty, or any part of it."""
    counts = after(write_in_place, tmp_path, "ordered", over_old=True)

    assert counts == {"old": 1, "none": 89, "new": 1, "garbage": 1}


def test_an_operation_without_a_meaning_is_refused(tmp_path: Path) -> None:
    """The model does not guess: what it does not know raises."""
    with patched(tmp_path), recording(tmp_path) as trace:
        os.symlink("nowhere", tmp_path / "link")

    with pytest.raises(UnmodelledError, match="symlink"):
        list(crash_states("w", {}, str(tmp_path), trace.operations, MODELS["ordered"]))


def test_ids_are_read_as_they_are_written() -> None:
    """The spelling of a state is the state."""
    text = "crash[overwrite,k=3,dir=1,data=torn:17,ordered]"

    assert (str(parse_state(text)), parse_state(text + " "), parse_state("crash[]")) == (
        text,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torn", "spells no crash state"),
        ("crash[upgrade,k=3,dir=1,data=-,ordered]", "no workload 'upgrade'"),
        ("crash[overwrite,k=3,dir=1,data=-,btrfs]", "no persistence model 'btrfs'"),
        ("crash[overwrite,k=99,dir=1,data=-,ordered]", "lead to no state"),
    ],
)
def test_an_unknown_state_is_refused_with_a_sentence(text: str, said: str) -> None:
    """Spelling, workload, model and existence are each checked before anything runs."""
    with pytest.raises(UnknownStateError, match=said):
        check_state(text, "reference")
