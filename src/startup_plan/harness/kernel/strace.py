# SPDX-License-Identifier: Apache-2.0
"""Runs a piece of Python under strace, which fails or kills it at a chosen system call.

Nothing stands between the subject and the kernel here: the process is a real one, and so are its
system calls and the file system. A run without a fault gives the list of calls; each of them is a
place for a fault. A fault that did not hit its place is an error, never a verdict.
"""

from __future__ import annotations

import os
import pickle
import select
import shutil
import signal
import subprocess
import time
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, final

from . import held_child
from .trace import Call, KernelError, read_window

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 30.0
"""What each step may take, and a window before it counts as hung; milliseconds are usual."""

_ATTACHED: Final = b"attached"


@final
class Fault(NamedTuple):
    """What is done to one system call.

    Attributes:
        at: the call, from a run without a fault.
        error: the error it returns without being carried out; "" kills the process just before.
    """

    at: Call
    error: str

    def __str__(self) -> str:
        """How strace is asked for it."""
        what = f"error={self.error}" if self.error else "signal=KILL"
        return f"inject={self.at.name}:{what}:when={self.at.nth}"


@final
class Traced(NamedTuple):
    """What came of a window.

    Attributes:
        calls: its system calls that concern the root, in order.
        end: the call that closed it, None if the process did not get there.
        raised: what came out of the action in the child, "" if nothing did.
        value: what the action returned, None if it did not.
        hung: whether the process had to be killed, because it had not come back.
    """

    calls: list[Call]
    end: Call | None
    raised: str
    value: Any
    hung: bool


def run_traced(
    action: Callable[[held_child.Window], object],
    root: str,
    fault: Fault | None = None,
    *,
    seconds: float = SECONDS,
) -> Traced:
    """Run `action` in a child process, and what it does in its window under strace.

    Args:
        action: what to run; it must enter the window that it is given.
        root: only system calls that concern this folder are reported.
        fault: what happens to one of them.
        seconds: what the window may take before it counts as hung.

    Raises:
        KernelError: the child did not get to its window, strace could not attach, or the fault did
            not happen where it should.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise KernelError("strace is not installed; install strace")
    child, reading = held_child.start(action)
    try:
        _wait_until_held(child, reading)
        command = [strace, "-f", "-y", "-X", "raw", "-s", "0", "-e", "trace=%file,%desc"]
        command += ["-e", str(fault)] if fault else []
        with subprocess.Popen(  # noqa: S603
            [*command, "-p", str(child)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as tracer:
            try:
                text, hung = _let_run(child, tracer, seconds)
            except BaseException:
                tracer.kill()
                raise
        message = _read_all(reading)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    seen = read_window(text, child, os.path.realpath(root), os.getcwd())
    raised, value = pickle.loads(message) if message else ("", None)  # noqa: S301  # our own child
    if not message and not hung and not (fault and not fault.error):
        code = os.waitstatus_to_exitcode(status)
        raised = f"the process ended ({signal.Signals(-code).name if code < 0 else code})"
    traced = Traced(seen.calls, seen.end, raised, value, hung)
    if fault is not None and not _has_fired(fault, traced, status):
        raise KernelError(f"{fault} did not happen where it should:\n{text}")
    return traced


def _has_fired(fault: Fault, traced: Traced, status: int) -> bool:
    calls = [*traced.calls, traced.end] if traced.end else traced.calls
    if fault.error:
        return any(call.injected and call.place == fault.at.place for call in calls)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return killed and bool(calls) and calls[-1].place == fault.at.place and not traced.hung


def _wait_until_held(child: int, reading: int) -> None:
    if _poll(reading, time.monotonic() + SECONDS):
        message = os.read(reading, 1)
        if message == held_child.HELD:
            # Only looked at, so that the child stays to be collected at the end.
            os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            return
        if message:
            raised, value = pickle.loads(message + _read_all(reading))  # noqa: S301  # our own child
            raise KernelError(f"the window was never entered: {raised or value}")
    raise KernelError("the child ended or hung before its window")


def _let_run(child: int, tracer: subprocess.Popen[bytes], seconds: float) -> tuple[str, bool]:
    """What strace prints until the child has ended, and whether that had to be forced."""
    stream = tracer.stderr
    assert stream is not None
    deadline, text, hung = time.monotonic() + SECONDS, b"", False
    while _ATTACHED not in text:
        part = _read_part(stream, deadline)
        text += part
        if not part:
            raise KernelError(f"strace could not attach: {text.decode(errors='replace').strip()}")
    os.kill(child, signal.SIGCONT)
    deadline = time.monotonic() + seconds
    while part := _read_part(stream, deadline):
        text += part
    if time.monotonic() >= deadline:
        hung = True
        os.kill(child, signal.SIGKILL)
        while part := _read_part(stream, time.monotonic() + SECONDS):
            text += part
    return text.decode(errors="replace"), hung


def _read_part(stream: IO[bytes], deadline: float) -> bytes:
    fd = stream.fileno()
    return os.read(fd, 65536) if _poll(fd, deadline) else b""


def _read_all(reading: int) -> bytes:
    message = b""
    while _poll(reading, time.monotonic() + SECONDS) and (part := os.read(reading, 65536)):
        message += part
    return message


def _poll(fd: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
