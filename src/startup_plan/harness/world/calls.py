# SPDX-License-Identifier: Apache-2.0
"""The one place from which a subject's functions are called in the process of a test."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")


@final
class Clock:
    """How long a subject has been at work in this process. Times in seconds.

    Attributes:
        calls: how many of its functions have come back.
        longest: the longest that one of them took.
        seconds: what all of them took together.
    """

    __slots__ = ("_open", "calls", "longest", "seconds")

    def __init__(self) -> None:
        """Nothing was called."""
        self.restart()

    def restart(self) -> None:
        """Forget every call so far."""
        self.calls = 0
        self.longest = self.seconds = 0.0
        self._open: dict[int, float] = {}

    def begin(self) -> None:
        """A call begins in this thread."""
        self._open[threading.get_ident()] = time.monotonic()

    def end(self) -> None:
        """The call of this thread has come back."""
        begun = self._open.pop(threading.get_ident(), None)
        if begun is None:
            return  # a thread of an earlier test, which nobody waits for any more
        took = time.monotonic() - begun
        self.calls += 1
        self.seconds += took
        self.longest = max(self.longest, took)

    @property
    def waiting(self) -> float:
        """For how long the oldest call has not come back; 0 if all have."""
        begun = min(self._open.values(), default=None)
        return 0.0 if begun is None else time.monotonic() - begun

    def __str__(self) -> str:
        """A clause for a person."""
        return (
            f"{self.calls} look-ups and saves took {self.seconds:.1f} s, the longest "
            f"{self.longest:.2f} s"
        )


CLOCK: Final = Clock()
"""The clock of this process; whoever runs a test restarts it."""


def call(function: Callable[_P, _R], *arguments: _P.args, **options: _P.kwargs) -> _R:
    """Call a function of a subject, and note how long it took.

    A subject that forks comes back twice: the copy ends here, because it must not judge.
    """
    me, deepest = os.getpid(), sys.getrecursionlimit()
    CLOCK.begin()
    try:
        return function(*arguments, **options)
    finally:
        if os.getpid() != me:
            os._exit(0)
        if sys.getrecursionlimit() != deepest:
            sys.setrecursionlimit(deepest)
        CLOCK.end()
