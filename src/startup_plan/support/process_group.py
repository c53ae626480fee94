# SPDX-License-Identifier: Apache-2.0
"""A child that is started with everything it starts, and ended with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
import warnings
from typing import TYPE_CHECKING, Final, Self, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

_POLL_SECONDS: Final = 0.02
_GRACE_SECONDS: Final = 5.0
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37


@final
class ProcessGroup:
    """A child process and its descendants, as one group of their own.

    Being in a group of its own, the child does not hear a Ctrl-C from the terminal: whoever holds
    this object ends the group. Orphans of the group come back to this process and are reaped.
    """

    __slots__ = ("_gone", "_process", "_strays")

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], output: Path) -> None:
        """Start `command`; what it and its descendants print goes to the file `output`."""
        self._gone = False
        self._strays = contextlib.ExitStack()
        self._strays.enter_context(no_process_left())
        with output.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        """Give the running group."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """End whatever is left of the group."""
        self.end(gently=False)
        self._strays.close()

    @property
    def pid(self) -> int:
        """Process id of the child, which is also that of the group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status of the child, negative for a signal; None while it runs."""
        return self._process.poll()

    def end(
        self,
        *,
        gently: bool,
        hurry: Callable[[], bool] = lambda: False,
        grace: float = _GRACE_SECONDS,
    ) -> None:
        """End the whole group and wait for that.

        Args:
            gently: ask first, and kill what is left after `grace` seconds.
            hurry: asked while waiting; true cuts the wait short.
            grace: how long to wait for what was asked to end.
        """
        if gently and self._signal(signal.SIGTERM):
            self._wait_until_gone(grace, hurry)
        if self._signal(signal.SIGKILL):
            self._wait_until_gone(_GRACE_SECONDS, lambda: False)

    def _signal(self, number: int) -> bool:
        """Send a signal to all of the group; say whether any of it was left."""
        self._reap()
        if self._gone:
            return False
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            # Never again: the number may be given to somebody else's group now.
            self._gone = True
        return not self._gone

    def _wait_until_gone(self, seconds: float, hurry: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while self._signal(0) and time.monotonic() < deadline and not hurry():
            time.sleep(_POLL_SECONDS)

    def _reap(self) -> None:
        """Take note of the end of the child, and of orphans that came back to this process."""
        if self._process.poll() is None:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self._process.pid, os.WNOHANG)[0]:
                pass


@final
class StopSignals:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a question that the run asks when it suits it.

    An exception out of the blue could hit between the start of a process and the note of it.
    """

    __slots__ = ("_before", "count", "number")

    def __init__(self) -> None:
        """Note no signal yet."""
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None]
        self._before = {}
        self.number: signal.Signals | None = None
        self.count = 0

    def __enter__(self) -> Self:
        """Listen; outside of the main thread, where that is impossible, nothing is heard."""
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # nohup: the run is meant to outlive its terminal
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_raised: object) -> None:
        """Put back whoever listened before."""
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.number = signal.Signals(number)
        self.count += 1


def fork() -> int:
    """Fork this process, without the warning of Python 3.12 and later.

    It warns because another thread may hold a lock at the fork. The children here take none that a
    thread of pytest or execnet holds: they run a subject, and leave.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        return os.fork()


def adopt_orphans(*, enable: bool) -> bool:
    """Let orphaned descendants become children of this process; give what was set before.

    Best effort: where the kernel has no such call, orphans are reaped by the init process.
    """
    before = ctypes.c_int(0)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, int(enable), 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return bool(before.value)


@contextlib.contextmanager
def no_process_left() -> Iterator[None]:
    """End, after the block, every process that became a child of this one during it.

    Orphans of whatever was started come back to this process, also those that have left its group
    and its session. Nobody else may start processes here meanwhile.
    """
    was_subreaper, before = adopt_orphans(enable=True), set(_children())
    try:
        yield
    finally:
        # Each that dies may hand over children of its own.
        while left := set(_children()) - before:
            for stray in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(stray, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stray, 0)
        adopt_orphans(enable=was_subreaper)


def _children() -> Iterator[int]:
    """The children of this process, dead ones that nobody has waited for included."""
    try:
        # At no cost where there is none, as in nearly every test.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return
    me = os.getpid()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
            # The name of the program comes second, in brackets, and may hold anything.
            if int(stream.read().rpartition(b")")[2].split()[1]) == me:
                yield int(name)
