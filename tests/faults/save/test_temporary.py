# SPDX-License-Identifier: Apache-2.0
"""The temporary file of a save, and what a hostile neighbour can plant in its place."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from typing import TYPE_CHECKING, Final
from unittest import mock

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.operations.faults import intrude_at, recording
from startup_plan.harness.operations.save_trial import NEW, SaveTrial
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.operations.faults import Trace
    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


PID: Final = 1
MOMENT: Final = 1_790_000_000
"""Seconds since 1970 at which every clock stands still."""

KEPT: Final = b"not a plan, and of value to somebody"


@pytest.mark.requirement("SAVE-05")
def test_the_temporary_file_is_created_exclusively(
    world: World, tally: Tally, over_old: bool
) -> None:
    """What a save writes under another name than the plan's it has created itself."""
    trial = SaveTrial(world, over_old=over_old)
    files = _temporary_files(trial, trial.clean)
    tally(boots=world.boots)

    for opened in files:
        if not opened.is_exclusive:
            raise Violation(
                "SAVE-05",
                f"{trial.setting}; the save opened its temporary file without O_EXCL, so that it "
                f"writes into whatever lies under that name (flags {opened.flags:#o})",
            )


@pytest.mark.requirement("SAVE-05")
def test_the_name_of_the_temporary_file_cannot_be_predicted(
    world: World, tally: Tally, over_old: bool
) -> None:
    """Two saves use different names though process id, clocks and seed are the same."""
    with _everything_known():
        trial = SaveTrial(world, over_old=over_old)
        traces = []
        for _ in range(2):
            random.seed(0)
            traces.append(recording(trial.root))
            trial.save(traces[-1])
    names = [{opened.new_name for opened in _temporary_files(trial, trace)} for trace in traces]
    tally(boots=world.boots)

    if again := names[0] & names[1]:
        raise Violation(
            "SAVE-05",
            f"{trial.setting}; two saves with the same process id at the same time used the same "
            f"name for their temporary file: {_shape(again.pop())}",
        )


@pytest.mark.requirement("SAVE-05")
def test_links_planted_at_known_names_are_not_followed(
    world: World, tally: Tally, over_old: bool
) -> None:
    """A link at every name that an earlier save used leads the next one nowhere."""
    with _everything_known():
        trial = SaveTrial(world, over_old=over_old)
        random.seed(0)
        earlier = recording(trial.root)
        trial.save(earlier)
        trial.put_back()
        os.makedirs(world.plan_folder, exist_ok=True)
        victim = _victim(trial)
        for opened in _temporary_files(trial, earlier):
            with contextlib.suppress(FileExistsError):
                os.symlink(victim, opened.new_name)
        random.seed(0)
        trial.save(again=False)
    tally(boots=world.boots)

    _check_victim(trial, victim, "links lie at the names that an earlier save used")


@pytest.mark.requirement("SAVE-05")
def test_a_link_planted_in_the_last_moment_is_not_followed(
    world: World, tally: Tally, over_old: bool
) -> None:
    """A link that appears just before the temporary file is created leads the save nowhere."""
    trial, planted = SaveTrial(world, over_old=over_old), 0
    for n in itertools.count(1):
        trial.put_back()
        victim = _victim(trial)

        def plant(operation: Operation, victim: str = victim) -> None:
            # Where there is no folder yet, or something lies there, nothing can be planted.
            with contextlib.suppress(OSError):
                os.symlink(victim, operation.new_name)

        fault = intrude_at(trial.root, n, plant, matching=lambda o: bool(o.new_name))
        trial.save(fault, again=False)
        if not fault.fired:
            break
        planted += 1
        _check_victim(trial, victim, f"a link appeared before the {trial.describe(fault.hit)}")
    tally(faults=planted, boots=world.boots)

    reached(planted, "a file that the save creates under a name")


@pytest.mark.requirement("SAVE-05")
def test_a_link_at_the_path_of_the_plan_is_not_written_through(world: World, tally: Tally) -> None:
    """A save replaces a link that lies where its plan belongs, and leaves alone where it leads."""
    trial = SaveTrial(world, over_old=False)
    trial.put_back()
    os.makedirs(world.plan_folder, exist_ok=True)
    victim = _victim(trial)
    os.symlink(victim, trial.plan)
    trial.save(again=False)
    tally(boots=world.boots)

    _check_victim(trial, victim, "a link lies at the path of the plan", plan_is_link=True)


def _temporary_files(trial: SaveTrial, trace: Trace) -> list[Operation]:
    """The making of files that the save put under another name and did not keep there."""
    gone = {
        operation.path
        for operation in trace.operations
        if operation.name in {"rename", "replace", "link", "unlink"} and operation.error is None
    }
    return [
        operation for operation in trace.operations if operation.new_name in gone - {trial.plan}
    ]


def _victim(trial: SaveTrial) -> str:
    """A file outside the cache root that nobody may write to."""
    path = os.path.join(trial.root, "victim")
    with open(path, "wb") as stream:
        stream.write(KEPT)
    return path


def _check_victim(
    trial: SaveTrial, victim: str, planted: str, *, plan_is_link: bool = False
) -> None:
    with open(victim, "rb") as stream:
        found = stream.read()
    if found != KEPT:
        raise Violation(
            "SAVE-05",
            f"{trial.setting}; {planted}; the save of {gib(NEW)} wrote {len(found)} bytes into the "
            "file to which they lead",
        )
    if os.path.islink(trial.plan) and not plan_is_link:
        raise Violation(
            "SAVE-05",
            f"{trial.setting}; {planted}; after the save of {gib(NEW)} the plan itself is a link",
        )


def _shape(path: str) -> str:
    """A file name with its digits blotted out, the same in every run."""
    return "".join("#" if letter.isdigit() else letter for letter in os.path.basename(path))


@contextlib.contextmanager
def _everything_known() -> Iterator[None]:
    """Process id, clocks and the seed of `random` are what an attacker expects."""
    state = random.getstate()
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(os, "getpid", return_value=PID))
        for name in ("time", "monotonic", "perf_counter"):
            patches.enter_context(mock.patch.object(time, name, return_value=float(MOMENT)))
            stopped = mock.patch.object(time, f"{name}_ns", return_value=MOMENT * 10**9)
            patches.enter_context(stopped)
        try:
            yield
        finally:
            random.setstate(state)
