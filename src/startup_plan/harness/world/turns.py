# SPDX-License-Identifier: Apache-2.0
"""Threads of which one runs at a time, handed over where it waits for another.

So the order is the same in every run, nobody sleeps, and a hang is seen instead of waited for: it
is the moment in which everybody waits. Time is simulated; it passes only then, up to the next
moment at which somebody's patience ends.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Sequence

PATIENCE: Final = 600.0
"""Simulated seconds after which whoever waits counts as hung: torch's own limit on devices."""


class AbandonedError(BaseException):
    """The thread that was waiting is ended: what it waits for cannot come.

    Not an `Exception`, so that a subject that catches those does not go on.
    """


@final
class _Member:
    """One thread.

    Attributes:
        until: what it waits for, None if it does not.
        deadline: when its patience ends, in simulated seconds; None if it never does.
        what: what it waits for, in words.
        expired: whether its patience has ended.
        hung: whether it was abandoned.
        error: what it raised.
    """

    __slots__ = ("deadline", "done", "error", "expired", "go", "hung", "thread", "until", "what")

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.until: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.what = ""
        self.expired = self.hung = self.done = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None


@final
class Turns:
    """Runs functions in threads, one at a time.

    Args:
        hold: makes what is entered around each turn of a thread, by its number: the state of the
            process that it stands for.
    """

    def __init__(self, hold: Callable[[int], contextlib.AbstractContextManager[None]]) -> None:
        """Nothing runs."""
        self._hold = hold
        self._members: list[_Member] = []
        self._back = threading.Semaphore(0)
        self._running = -1
        self._now = 0.0

    def run(self, bodies: Sequence[Callable[[], None]]) -> list[str]:
        """Run all to their ends, the first that can go on first.

        Returns:
            What each waited for when everybody waited in vain; "" for those that came to an end.

        Raises:
            BaseException: what a body raised, the first of them.
        """
        self._members = [_Member() for _ in bodies]
        for member, body in zip(self._members, bodies, strict=True):
            member.thread = threading.Thread(target=self._live, args=(member, body), daemon=True)
            member.thread.start()
        while waiting := [each for each in self._members if not each.done]:
            able = [each for each in waiting if each.until is None or each.until()]
            self._resume(able[0] if able else self._passed_over(waiting))
        for member in self._members:
            if member.error is not None:
                raise member.error
        return [member.what if member.hung else "" for member in self._members]

    def wait(self, until: Callable[[], bool], seconds: float | None, what: str) -> bool:
        """Called in a thread of these: let the others run until `until()` is true.

        Returns:
            Whether it is; False after so many seconds of simulated time.

        Raises:
            AbandonedError: it never will be.
        """
        member = self._members[self._running]
        if not member.hung and not until():
            member.until, member.what, member.expired = until, what, False
            member.deadline = None if seconds is None else self._now + seconds
            self._back.release()
            member.go.acquire()
            member.until = None
        if member.hung:
            raise AbandonedError
        return not member.expired or until()

    def _passed_over(self, waiting: list[_Member]) -> _Member:
        """Whose patience ends next; where nobody's does, all are hung."""
        timed = [each for each in waiting if each.deadline is not None and not each.hung]
        found = min(timed, key=lambda each: each.deadline or 0.0, default=None)
        if found is None or found.deadline is None or found.deadline > PATIENCE:
            for each in waiting:
                each.hung = True
            return waiting[0]
        self._now, found.expired = max(self._now, found.deadline), True
        return found

    def _resume(self, member: _Member) -> None:
        self._running = self._members.index(member)
        with self._hold(self._running):
            member.go.release()
            # Not a join: a signal must be able to interrupt this.
            self._back.acquire()

    def _live(self, member: _Member, body: Callable[[], None]) -> None:
        member.go.acquire()
        try:
            body()
        except AbandonedError:
            pass
        except BaseException as error:
            member.error = error
        finally:
            member.done = True
            self._back.release()
