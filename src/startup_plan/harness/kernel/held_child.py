# SPDX-License-Identifier: Apache-2.0
"""The process whose system calls are traced: a fork of the test, held until a tracer is there.

It is forked with everything loaded, makes its way to the moment before the subject's function,
stops, and is let go once strace has attached. What it makes between two marks is the window. It
leaves through `os._exit`, so that nothing of the test is cleaned up twice.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
from typing import TYPE_CHECKING, Final, Self, final

from startup_plan.support.channel import die_with_parent
from startup_plan.support.process_group import fork

from .trace import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable

HELD: Final = b"h"
"""Sent by the child right before it stops."""

_PR_SET_PTRACER: Final = 0x59616D61
_ANYBODY: Final = ctypes.c_ulong(-1)
_LIBC: Final = ctypes.CDLL(None)
_access: Final = os.access
_write: Final = os.write


@final
class Window:
    """Marks what is traced; to be entered around the subject's function, once.

    Args:
        writing: descriptor of the pipe on which the child tells that it waits.
    """

    def __init__(self, writing: int) -> None:
        """A window that has not been reached."""
        self._writing = writing

    def __enter__(self) -> Self:
        """Wait for the tracer, then make the first mark."""
        _write(self._writing, HELD)
        os.kill(os.getpid(), signal.SIGSTOP)
        _access(BEGIN, os.F_OK)
        return self

    def __exit__(self, *_: object) -> None:
        """Make the last mark."""
        _access(END, os.F_OK)


def start(action: Callable[[Window], object]) -> tuple[int, int]:
    """Fork a child that runs `action`.

    Args:
        action: is given the window; what it returns must survive a pickle.

    Returns:
        The child's process id, and a descriptor from which its messages can be read: `HELD` if it
        gets to the window, then a pickle of ("", what `action` returned) or (what it raised, None).
    """
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        os.close(reading)
        _be_child(writing, action)
    os.close(writing)
    return child, reading


def _be_child(writing: int, action: Callable[[Window], object]) -> None:
    """Everything that the child does; never returns."""
    try:
        # The test process may be killed outright; a stopped child must not outlive it.
        die_with_parent()
        # Where Yama restricts tracing to one's own children, strace is none of this process's.
        _LIBC.prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
        # A collection could close files of the test in the middle of the window.
        gc.disable()
        try:
            reply = pickle.dumps(("", action(Window(writing))))
        except BaseException as error:
            reply = pickle.dumps((f"{type(error).__name__}: {str(error)[:300]}", None))
        rest = memoryview(reply)
        while rest:
            rest = rest[_write(writing, rest) :]
    finally:
        os._exit(0)
