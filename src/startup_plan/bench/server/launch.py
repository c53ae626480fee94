# SPDX-License-Identifier: Apache-2.0
"""One server: launched, waited for, asked, and ended with everything that it started."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, final

from startup_plan.bench.errors import InterruptedRunError, RefusalError
from startup_plan.bench.orders.benchmark import HOST
from startup_plan.support import ports
from startup_plan.support.process_group import adopt_orphans

from . import talk
from .family import Family, Process, children_of_this_process
from .logs import Log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from startup_plan.support.process_group import StopSignals

POLL_SECONDS: Final = 0.01
"""How long to wait between two questions; half of it is what noticing costs on average."""

_PATIENCE_SECONDS: Final = 2.0
_KILL_SECONDS: Final = 5.0
_HURRIED_SECONDS: Final = 0.5


@final
@dataclass(slots=True)
class Ending:
    """How a server ended.

    Args:
        status: the exit status of its first process, negative for a signal.
        how: `by itself`, `TERM` or `KILL`, whichever was needed.
        seconds: how long the end took.
        left: processes that were still there after the grace time, in words.
        immortal: processes that not even KILL has ended.
    """

    status: int | None
    how: str
    seconds: float
    left: list[str] = field(default_factory=list)
    immortal: list[str] = field(default_factory=list)


@final
class Server:
    """A server process in a session of its own.

    `launched` is when, on the monotonic clock; `died` is the exit status of a server that ended
    before it was healthy; `log` is what it has printed so far.

    Being in its own process group it does not hear a Ctrl-C from the terminal: whoever holds this
    object ends it.
    """

    __slots__ = (
        "_command",
        "_environment",
        "_family",
        "_marker",
        "_offset",
        "_path",
        "_process",
        "_stop",
        "_was_subreaper",
        "died",
        "launched",
        "log",
    )

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        marker: str,
        log: Path,
        stop: StopSignals,
    ) -> None:
        """Prepare to launch `command`; what it prints goes to the file `log`."""
        self._command = command
        self._environment = environment
        self._marker = marker
        self._path = log
        self._stop = stop
        self._offset = 0
        self.log = Log()
        self.launched = 0.0
        self.died: int | None = None

    def __enter__(self) -> Self:
        """Launch it.

        Raises:
            RefusalError: it cannot be executed.
        """
        self._was_subreaper = adopt_orphans(enable=True)
        self._family = Family(self._marker, children_of_this_process())
        try:
            with self._path.open("xb") as file:
                self.launched = time.monotonic()
                self._process = subprocess.Popen(  # noqa: S603  # what the user asked for
                    self._command,
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            adopt_orphans(enable=self._was_subreaper)
            raise RefusalError(
                f"{self._command[0]}: cannot be executed ({error.strerror})"
            ) from error
        self._family.lead_by(self._process.pid)
        return self

    def __exit__(self, *_raised: object) -> None:
        """End whatever is left of it."""
        self.end(_HURRIED_SECONDS)
        adopt_orphans(enable=self._was_subreaper)

    @property
    def age(self) -> float:
        """Seconds since the launch."""
        return time.monotonic() - self.launched

    def wait_until_healthy(self, port: int, path: str, timeout: float) -> float | None:
        """Give the seconds from the launch to the first healthy answer, or None if there is none.

        Raises:
            RefusalError: the server redirects.
            InterruptedRunError: a signal asked for the end.
        """
        while self.age < timeout:
            if talk.is_healthy(port, path, min(_PATIENCE_SECONDS, timeout)):
                found = self.age
                self.follow_log(found)
                return found
            self.follow_log()
            self._check_stop()
            if not self._is_starting():
                self.died = self._process.poll()
                break
            time.sleep(POLL_SECONDS)
        self.follow_log()
        return None

    def ask(self, port: int, endpoint: str, body: bytes, timeout: float) -> talk.Reply:
        """Send a request and wait for its answer.

        Raises:
            InterruptedRunError: a signal asked for the end.
        """
        reply = talk.Exchange(port, endpoint, body, timeout).wait(
            lambda: self._stop.number is not None
        )
        self._check_stop()
        if reply is None:
            raise InterruptedRunError
        return reply

    def check_listeners(self, port: int) -> None:
        """Find out who listens on `port`.

        Raises:
            RefusalError: other machines can reach the server, or it is not the one launched.
        """
        found = ports.listeners(port)
        open_to_all = [listener.address for listener in found if not listener.is_loopback]
        if open_to_all:
            raise RefusalError(
                f"the server listens on {', '.join(open_to_all)} port {port}, which other machines "
                f"can reach; let it listen on {HOST} (for vLLM: --host {HOST})"
            )
        pids = [process.pid for process in self._family.members()]
        if found and not ports.holds_one(pids, found):
            raise RefusalError(
                f"what answers on port {port} is not the server that was launched; choose another "
                "port"
            )

    def end(self, grace: float) -> Ending:
        """End the server: TERM to its group, and KILL to whatever is left after `grace` seconds.

        Processes that have left the group are given the same time to go by themselves.
        """
        start = time.monotonic()
        how = "by itself"
        if self._members():
            how = "TERM"
            self._family.send_to_group(signal.SIGTERM)
            self._wait_until_gone(grace)
        left = self._members()
        words = [process.describe() for process in left]
        if left:
            how = "KILL"
            self._kill()
        immortal = [process.describe() for process in self._members()]
        self.follow_log()
        self.log.finish(self.age)
        status = self._process.poll()
        return Ending(status, how, time.monotonic() - start, words, immortal)

    def follow_log(self, at: float | None = None) -> None:
        """Read what the server has printed since the last time, and note when it was seen."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        if data:
            self.log.feed(data, self.age if at is None else at)

    def _is_starting(self) -> bool:
        """Whether the server can still become healthy; it may have gone to the background."""
        status = self._process.poll()
        return status is None or (status == 0 and bool(self._members()))

    def _members(self) -> list[Process]:
        self._process.poll()
        return self._family.members()

    def _kill(self) -> None:
        deadline = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < deadline and self._members():
            # Again and again: a process may have started another one in between.
            self._family.send(signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def _wait_until_gone(self, seconds: float) -> None:
        start, calls = time.monotonic(), self._stop.count
        while self._members() and time.monotonic() - start < seconds:
            if self._stop.count > max(calls, 1):
                return  # asked twice: no more patience
            time.sleep(POLL_SECONDS)

    def _check_stop(self) -> None:
        if self._stop.number is not None:
            raise InterruptedRunError


def new_marker() -> str:
    """Give a name for one server that no other process has in its environment."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"
