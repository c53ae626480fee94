# SPDX-License-Identifier: Apache-2.0
"""The processes of a server, wherever they have gone, and how to end them and nobody else.

A process belongs to the server if it is in its process group or session, if its environment has the
marker, if it came back to this process as an orphan, or if it descends from one that belongs. A
process that leaves its group, its session and its parents and wipes its environment is thus still
found.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from startup_plan.bench.orders.environment import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEAD: Final = frozenset("ZXx")
_SHOWN: Final = 160


@final
@dataclass(frozen=True, slots=True)
class Process:
    """A process as the kernel's table shows it."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: str
    threads: int = 1

    @property
    def is_alive(self) -> bool:
        """Whether it can still do anything; a zombie cannot, once its last thread has ended.

        The first thread may end before the others, which hold the sockets open meanwhile.
        """
        return self.state not in _DEAD or self.threads > 1

    def describe(self) -> str:
        """Say in a few words which one it is."""
        try:
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                words = file.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            words = ""
        words = words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
        return f"pid {self.pid} ({words or 'its command is not known'})"


@final
class Family:
    """Finds what belongs to one server."""

    __slots__ = ("_before", "_leader", "_marker")

    def __init__(self, marker: str, before: frozenset[int]) -> None:
        """Look for `marker`; children of this process that are in `before` are not the server's."""
        self._marker = f"{MARKER}={marker}".encode()
        self._before = before
        self._leader = 0

    def lead_by(self, pid: int) -> None:
        """Name the first process of the server, which leads its group and session."""
        self._leader = pid

    def members(self) -> list[Process]:
        """Give all living processes of the server, and bury the dead that nobody else waits for."""
        table = {process.pid: process for process in _processes()}
        table.pop(os.getpid(), None)
        found = {pid for pid, process in table.items() if self._belongs(process)}
        children: dict[int, list[int]] = {}
        for pid, process in table.items():
            self._reap(process)
            children.setdefault(process.parent, []).append(pid)
        queue = list(found)
        while queue:
            for child in children.get(queue.pop(), ()):
                if child not in found:
                    found.add(child)
                    queue.append(child)
        return [table[pid] for pid in sorted(found) if table[pid].is_alive]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to each process of the server; to the group in one go."""
        self.send_to_group(number)
        for process in self.members():
            if process.group != self._leader:
                _signal_safely(process, number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Send a signal to the process group alone, if any of it is left."""
        # Asked anew each time: an empty group's number may be given to somebody else.
        if any(process.group == self._leader for process in self.members()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)

    def _reap(self, process: Process) -> None:
        """Take note of the end of an orphan that came back to this process."""
        # Whoever started the others waits for them.
        adopted = process.pid != self._leader and process.pid not in self._before
        if adopted and process.parent == os.getpid() and not process.is_alive:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)

    def _belongs(self, process: Process) -> bool:
        if self._leader and self._leader in (process.pid, process.group, process.session):
            return True
        if process.parent == os.getpid() and process.pid not in self._before:
            return True
        return self._has_marker(process.pid)

    def _has_marker(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self._marker in file.read().split(b"\0")
        except OSError:
            return False


def children_of_this_process() -> frozenset[int]:
    """Give the processes that this one has started, or adopted, so far."""
    return frozenset(process.pid for process in _processes() if process.parent == os.getpid())


def _processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := _read(int(name))) is not None:
            yield process


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name stands in parentheses and may hold any character, parentheses included.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return Process(pid, fields[0], parent, group, session, fields[19], int(fields[17]))


def _signal_safely(process: Process, number: signal.Signals) -> None:
    """Send a signal unless the process has ended and its number belongs to another by now."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = _read(process.pid)
        if now is not None and now.started == process.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
