# SPDX-License-Identifier: Apache-2.0
"""Injected faults hit the operation that they were aimed at, and do what they say."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.harness.operations.faults import (
    EndlessError,
    Trace,
    fail_at,
    intrude_at,
    kill_at,
    recording,
    short_writes,
)
from startup_plan.harness.operations.interposer import descriptors, patched
from startup_plan.harness.operations.save_trial import SaveTrial
from startup_plan.harness.world.world import KilledError

if TYPE_CHECKING:
    from pathlib import Path

    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.world.world import World


def _save(root: Path, *, clean_up: bool = True) -> None:
    """A careful save of ten bytes: open, write, fsync, close, replace."""
    temporary = root / "temporary"
    try:
        with open(temporary, "wb") as stream:
            stream.write(b"0123456789")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, root / "plan")
    except BaseException:
        if clean_up:
            with suppress(OSError):
                os.unlink(temporary)
        raise


def _names(trace: Trace) -> str:
    return " ".join(operation.name for operation in trace.operations)


@pytest.mark.parametrize(
    ("n", "names"),
    [
        (1, "open unlink"),
        (2, "open write write close unlink"),  # closing a file object tries to flush again
        (3, "open write fsync close unlink"),
        (4, "open write fsync close unlink"),
        (5, "open write fsync close replace unlink"),
    ],
)
def test_each_operation_can_fail(tmp_path: Path, n: int, names: str) -> None:
    """The n-th operation fails with the given error, and the code goes on as it would."""
    fault = fail_at(tmp_path, n, "EIO")
    with pytest.raises(OSError, match="Input/output error") as caught, fault:
        _save(tmp_path)

    assert (caught.value.errno, fault.fired, fault.hit.index) == (errno.EIO, True, n)
    assert _names(fault) == names
    assert list(tmp_path.iterdir()) == []


def test_a_fault_beyond_the_end_is_not_reached(tmp_path: Path) -> None:
    """A run that ends before the n-th operation says that nothing has fired."""
    with fail_at(tmp_path, 6, errno.EIO) as fault:
        _save(tmp_path)

    assert not fault.fired
    assert (tmp_path / "plan").read_bytes() == b"0123456789"


def test_a_persistent_fault_hits_the_clean_up_as_well(tmp_path: Path) -> None:
    """From the n-th on every operation fails, so that what was created stays."""
    fault = fail_at(tmp_path, 3, "ENOSPC", persistent=True)
    with pytest.raises(OSError, match="No space left"), fault:
        _save(tmp_path)

    assert [operation.name for operation in fault.hits] == ["fsync", "close", "unlink"]
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]


def test_a_fault_can_be_aimed_at_some_operations(tmp_path: Path) -> None:
    """Only operations that match are counted, and only they fail."""
    fault = fail_at(tmp_path, 2, "ENOSPC", persistent=True, matching=lambda o: o.takes_space)
    with pytest.raises(OSError, match="No space left"), fault:
        _save(tmp_path)

    assert {operation.name for operation in fault.hits} == {"write"}
    assert list(tmp_path.iterdir()) == []


def test_an_error_can_come_after_the_effect(tmp_path: Path) -> None:
    """An operation can have happened although it is reported as failed."""
    fault = fail_at(tmp_path, 5, "ESTALE", after_effect=True)
    with pytest.raises(OSError, match="Stale"), fault:
        _save(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_a_failing_close_lets_go_of_the_descriptor(tmp_path: Path) -> None:
    """As on Linux, a descriptor is closed though close reports an error."""
    with fail_at(tmp_path, 2, "EIO") as fault:
        fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="Input/output"):
            os.close(fd)

    assert fault.fired
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_an_opening_that_failed_after_its_effect_leaves_no_descriptor(tmp_path: Path) -> None:
    """What the caller never hears of is not left open."""
    before = set(os.listdir("/proc/self/fd"))
    fault = fail_at(tmp_path, 1, "EIO", after_effect=True)
    with pytest.raises(OSError, match="Input/output"), fault:
        os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)

    assert set(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "f").exists()


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_other_exceptions_can_be_injected(tmp_path: Path, kind: type[BaseException]) -> None:
    """What no file system reports can strike at an operation, too."""
    with pytest.raises(kind), fail_at(tmp_path, 3, kind) as fault:
        _save(tmp_path)

    assert fault.fired
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n", range(1, 6))
def test_a_killed_process_touches_nothing_more(tmp_path: Path, n: int) -> None:
    """From the n-th operation on nothing has an effect, the process's own clean-up included."""
    with pytest.raises(KilledError), kill_at(tmp_path, n) as fault:
        _save(tmp_path)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    assert fault.hit.index == n
    assert found == ({} if n == 1 else {"temporary": b"" if n == 2 else b"0123456789"})


def test_what_a_killed_process_had_buffered_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File objects that outlive their process write nothing, close nothing, and complain not."""
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    with suppress(KilledError), kill_at(tmp_path, 2):
        stream = open(tmp_path / "f", "w")  # noqa: SIM115
        stream.write("buffered")
        os.stat(tmp_path)
    left = dict(descriptors)
    del stream

    assert (tmp_path / "f").read_bytes() == b""
    assert (left, complaints) == ({}, [])


def test_a_kill_can_be_aimed_at_changes(tmp_path: Path) -> None:
    """Operations that others cannot see can be left out of the count."""
    with pytest.raises(KilledError), kill_at(tmp_path, 3, lambda o: o.changes_files) as fault:
        _save(tmp_path)

    assert fault.hit.name == "replace"


def test_a_short_write_takes_only_what_it_says(tmp_path: Path) -> None:
    """A single write takes at most so many bytes, and says how many."""
    with short_writes(tmp_path, 4) as fault:
        fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
        taken = [os.write(fd, b"0123456789"), os.write(fd, b"ab"), os.pwrite(fd, b"xyzuvw", 0)]
        os.close(fd)

    assert (taken, len(fault.hits)) == ([4, 2, 4], 2)
    assert (tmp_path / "f").read_bytes() == b"xyzuab"


def test_a_file_object_goes_on_after_a_short_write(tmp_path: Path) -> None:
    """Python's own buffering completes what the system took only in part."""
    with short_writes(tmp_path, lambda given: max(1, given // 2)) as fault:
        _save(tmp_path)

    assert [operation.result for operation in fault.operations[1:5]] == [5, 2, 1, 1]
    assert (tmp_path / "plan").read_bytes() == b"0123456789"


def test_a_write_that_takes_nothing_happens_once(tmp_path: Path) -> None:
    """A caller that tries again gets on; one that does not is told that nothing was written."""
    with short_writes(tmp_path, 0) as fault:
        fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
        taken = [os.write(fd, b"abc"), os.write(fd, b"abc")]
        os.close(fd)

    assert (taken, len(fault.hits)) == ([0, 3], 1)


def test_somebody_can_act_between_two_operations(tmp_path: Path) -> None:
    """An intruder acts just before the operation, unseen, and sees himself if he records."""
    seen: list[Trace] = []

    def act(operation: Operation) -> None:
        assert operation.name == "replace"
        with recording(tmp_path) as inner:
            (tmp_path / "plan").write_bytes(b"theirs")
        (tmp_path / "unseen").touch()
        seen.append(inner)

    with intrude_at(tmp_path, 1, act, matching=lambda o: o.name == "replace") as fault:
        _save(tmp_path)

    assert _names(fault) == "open write fsync close replace"
    assert [_names(trace) for trace in seen] == ["open write close"]
    assert (tmp_path / "plan").read_bytes() == b"0123456789"
    assert (tmp_path / "unseen").exists()


def test_a_run_without_end_is_ended(tmp_path: Path) -> None:
    """A subject that tries again for ever is stopped, whatever it catches."""

    def retry() -> None:
        while True:
            with suppress(OSError):
                os.stat(tmp_path)

    with pytest.raises(EndlessError), fail_at(tmp_path, 1, "EIO", persistent=True) as fault:
        retry()

    assert len(fault.operations) == Trace.endless + 1


def test_a_process_leaves_nothing_open(tmp_path: Path) -> None:
    """Descriptors that a simulated process forgot are closed when it ends."""
    before = set(os.listdir("/proc/self/fd"))
    with patched(tmp_path):
        with recording(tmp_path):
            os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
        os.open(tmp_path / "g", os.O_WRONLY | os.O_CREAT)

    assert set(os.listdir("/proc/self/fd")) == before
    assert descriptors == {}


@pytest.mark.parametrize("over_old", [False, True])
def test_a_trial_knows_when_the_plan_was_published(world: World, over_old: bool) -> None:
    """The operation that puts the reference's plan in place is the replace, and no other."""
    trial = SaveTrial(world, over_old=over_old)

    assert trial.clean.operations[trial.published - 1].name == "replace"
    assert trial.clean.operations[trial.published - 1].target == trial.plan


def test_a_trial_tries_every_operation_once(world: World) -> None:
    """Faults go from the first operation to the last, and each is shown to have fired."""
    trial = SaveTrial(world, over_old=True)
    hit = [attempt.fault.hit.index for attempt in trial.failed(("EIO",), persistent=True)]
    killed = [attempt.fault.hit.index for attempt in trial.killed()]

    assert hit == killed == list(range(1, len(trial.clean.operations) + 1))


def test_a_trial_begins_from_the_same_disk_each_time(world: World) -> None:
    """Whatever a save has done to the disk, the next one does not find it."""
    trial = SaveTrial(world, over_old=True)
    trial.put_back()
    before = trial.files()
    trial.save()
    (after, litter) = (trial.files(), os.path.join(world.plan_folder, "litter"))
    with open(litter, "w"):
        pass
    left = trial.leftovers()
    trial.put_back()

    assert before != after
    assert (left, trial.files()) == ([litter], before)
