# SPDX-License-Identifier: Apache-2.0
"""Which processes belong to a server."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from startup_plan.bench.orders.environment import MARKER
from startup_plan.bench.server.family import Family, children_of_this_process
from startup_plan.bench.server.launch import new_marker

if TYPE_CHECKING:
    from collections.abc import Generator

# Another run of these tests has other processes.
MINE = new_marker()
READY = "import signal; print(flush=True); signal.pause()"


@pytest.fixture
def stranger() -> Generator[subprocess.Popen[bytes]]:
    """A process in a session of its own, with a marker in its environment."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", READY],
        env={MARKER: MINE},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        # Its environment can be read once it has replaced the copy of this process.
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("marker", "found"),
    [(MINE, True), (MINE[:-1], False), ("other", False)],
    ids=["same", "shorter", "other"],
)
def test_a_process_is_known_by_its_marker(
    stranger: subprocess.Popen[bytes], marker: str, found: bool
) -> None:
    """A process that is neither child nor in the group of a server belongs to it by the marker."""
    members = Family(marker, children_of_this_process()).members()

    assert [process.pid for process in members] == ([stranger.pid] if found else [])


def test_a_process_is_known_by_its_session(stranger: subprocess.Popen[bytes]) -> None:
    """A process in the session of the server's first process belongs to it."""
    family = Family("other", children_of_this_process())
    family.lead_by(stranger.pid)

    assert [process.pid for process in family.members()] == [stranger.pid]


def test_a_process_is_known_by_its_group() -> None:
    """A process that is in the group of the server's first process, and nothing else, belongs."""
    pause = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    with (
        subprocess.Popen(pause, process_group=0) as first,
        subprocess.Popen(pause, process_group=first.pid) as second,
        subprocess.Popen(pause, process_group=0) as other,
    ):
        family = Family("other", children_of_this_process())
        family.lead_by(first.pid)
        members = {process.pid for process in family.members()}
        for process in (first, second, other):
            process.kill()

    assert members == {first.pid, second.pid}


def test_an_orphan_is_known_by_its_coming_back(stranger: subprocess.Popen[bytes]) -> None:
    """A child that this process did not have before the launch belongs to the server."""
    before = children_of_this_process() - {stranger.pid}

    assert [p.pid for p in Family("other", before).members()] == [stranger.pid]


def test_the_dead_do_not_count(stranger: subprocess.Popen[bytes]) -> None:
    """A process that has ended and that nobody has waited for yet is not left."""
    family = Family(MINE, children_of_this_process())
    ended = os.pidfd_open(stranger.pid)
    family.send(signal.SIGKILL)
    has_ended = select.select([ended], [], [], 60)[0] == [ended]
    os.close(ended)

    assert (has_ended, family.members()) == (True, [])


HEADLESS = """
import ctypes, platform, signal, threading
threading.Thread(target=threading.Event().wait).start()
print(flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def test_a_process_lives_as_long_as_any_of_its_threads() -> None:
    """A process whose first thread has ended, and whose others hold its sockets, is left."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", HEADLESS], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        family = Family("other", children_of_this_process())
        family.lead_by(process.pid)
        assert process.stdout is not None
        process.stdout.readline()
        while (found := family.members()) and found[0].state != "Z":
            assert process.poll() is None
        process.kill()
        process.wait()

        assert ([member.pid for member in found], family.members()) == ([process.pid], [])


def test_a_process_is_described(stranger: subprocess.Popen[bytes]) -> None:
    """A process is named by its number and its command."""
    (member,) = Family(MINE, children_of_this_process()).members()
    words = member.describe()

    assert words.startswith(f"pid {stranger.pid} ({sys.executable} -S -c import signal")
