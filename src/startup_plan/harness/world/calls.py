# SPDX-License-Identifier: Apache-2.0
"""The one place from which a subject's functions are called in the process of a test."""

from __future__ import annotations

import os
import sys
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
        since: when the call began that has not come back yet, on the monotonic clock; else None.
    """

    __slots__ = ("calls", "longest", "seconds", "since")

    def __init__(self) -> None:
        """Nothing was called."""
        self.restart()

    def restart(self) -> None:
        """Forget every call so far."""
        self.calls = 0
        self.longest = self.seconds = 0.0
        self.since: float | None = None

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
    begun = CLOCK.since = time.monotonic()
    try:
        return function(*arguments, **options)
    finally:
        took = time.monotonic() - begun
        if os.getpid() != me:
            os._exit(0)
        if sys.getrecursionlimit() != deepest:
            sys.setrecursionlimit(deepest)
        CLOCK.since = None
        CLOCK.calls += 1
        CLOCK.seconds += took
        CLOCK.longest = max(CLOCK.longest, took)
