# SPDX-License-Identifier: Apache-2.0
"""A call in a process of its own: whatever it does, the test learns of it and goes on."""

from __future__ import annotations

import mmap
import os
import signal
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.support.isolated import drop_override, run_isolated

if TYPE_CHECKING:
    from pathlib import Path

MIB: Final = 2**20


def test_a_value_comes_back() -> None:
    """What the call returns is what the test gets."""
    outcome = run_isolated(lambda: {"applied": 5}, seconds=10, extra_bytes=64 * MIB)

    assert (outcome.kind, outcome.value) == ("returned", {"applied": 5})


def test_an_exception_comes_back_in_words() -> None:
    """What the call raises is named."""
    outcome = run_isolated(lambda: int("x"), seconds=10, extra_bytes=64 * MIB)

    assert outcome.kind == "raised"
    assert outcome.error.startswith("ValueError")


def test_a_call_that_waits_for_ever_is_ended(tmp_path: Path) -> None:
    """A FIFO that nobody writes to holds up the child alone."""
    os.mkfifo(tmp_path / "fifo")
    outcome = run_isolated((tmp_path / "fifo").read_bytes, seconds=0.2, extra_bytes=64 * MIB)

    assert outcome.kind == "hung"


def test_a_call_that_ends_its_process_is_noticed() -> None:
    """A signal and an exit are told apart from an answer."""
    killed = run_isolated(
        lambda: os.kill(os.getpid(), signal.SIGKILL), seconds=10, extra_bytes=64 * MIB
    )
    left = run_isolated(lambda: os._exit(3), seconds=10, extra_bytes=64 * MIB)

    assert (killed.kind, killed.error) == ("died", "ended its process (SIGKILL)")
    assert (left.kind, left.error) == ("died", "ended its process (exit status 3)")


def test_memory_is_bounded_and_measured() -> None:
    """More than the bound is refused, and what is allocated is known to the page."""
    refused = run_isolated(lambda: len(b"x" * (256 * MIB)), seconds=10, extra_bytes=64 * MIB)
    allowed = run_isolated(
        lambda: len(b"x" * (8 * MIB)), seconds=10, extra_bytes=64 * MIB, trace=True
    )

    assert refused.error.startswith("MemoryError")
    assert 8 * MIB <= allowed.allocated < 8 * MIB + 65_536


def test_pages_that_python_did_not_allocate_are_measured() -> None:
    """Mapped memory that was touched shows in the resident set."""

    def touch() -> None:
        with mmap.mmap(-1, 32 * MIB) as pages:
            pages.write(b"x" * MIB * 32)

    outcome = run_isolated(touch, seconds=10, extra_bytes=256 * MIB)

    assert outcome.resident is None or outcome.resident > 16 * MIB


def test_bytes_read_are_counted(tmp_path: Path) -> None:
    """Every byte that goes through a system call counts, and nothing else."""
    (tmp_path / "file").write_bytes(bytes(MIB))
    outcome = run_isolated(
        lambda: len((tmp_path / "file").read_bytes()), seconds=10, extra_bytes=64 * MIB
    )

    assert outcome.read is None or MIB <= outcome.read < MIB + 4096


def test_without_its_override_even_root_is_refused(tmp_path: Path) -> None:
    """After giving up the right to ignore modes, a file without a mode cannot be read."""
    (tmp_path / "file").touch(mode=0)
    outcome = run_isolated(
        (tmp_path / "file").read_bytes,
        seconds=10,
        extra_bytes=64 * MIB,
        prepare=drop_override,
    )

    assert outcome.error.startswith("PermissionError")


def test_a_failed_preparation_is_no_answer() -> None:
    """Nothing is said of a call that could not be prepared."""
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_isolated(lambda: 1, seconds=10, extra_bytes=64 * MIB, prepare=lambda: 1 // 0)
