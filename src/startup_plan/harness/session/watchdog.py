# SPDX-License-Identifier: Apache-2.0
"""Ends a test that takes too long, and says who took the time."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Final, final

import pytest

from startup_plan.harness.world.calls import CLOCK

if TYPE_CHECKING:
    from collections.abc import Generator

_PATIENCE: Final = 5.0
"""Seconds after which a single call of a subject, in a test that is out of time, counts as hung."""

_GRACE: Final = 10.0
"""Seconds after which a process that does not hear its alarm is ended."""


class HungError(BaseException):
    """A call of a subject did not come back.

    Not an `Exception`, so that a subject that catches those does not go on.
    """


class SlowError(BaseException):
    """A test ran out of time while its subject still came back, again and again; it judged nothing.

    Not an `Exception`, as `HungError`.
    """


@final
class Watchdog:
    """Interrupts the tests of requirements after a time that none of them needs.

    Args:
        seconds: that time. Tests with waits of their own have shorter ones.
        with_vllm: the same for tests that boot real vLLM.
        with_gpu: the same for tests on a real card.
    """

    def __init__(self, seconds: float, with_vllm: float, with_gpu: float) -> None:
        """Nothing is watched yet."""
        self._seconds = seconds
        self._slow = {"vllm": with_vllm, "gpu": with_gpu}
        # Of its own, because a subject may close the error stream.
        self._errors = os.dup(2)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Have the process ended should it not hear its alarm, whatever signals and locks do."""
        if item.get_closest_marker("requirement") is None:
            return (yield)
        CLOCK.restart()
        seconds = self._limit(item)
        faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=self._errors)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Set an alarm for the time of the call, in the thread that gets signals."""
        watched = item.get_closest_marker("requirement") is not None
        if not watched or threading.current_thread() is not threading.main_thread():
            yield
            return

        seconds = self._limit(item)
        begun = time.monotonic()

        def bark(_signal: int, _frame: Any) -> None:
            waiting, passed = CLOCK.waiting, time.monotonic() - begun
            if waiting > min(_PATIENCE, seconds / 2):
                raise HungError(f"the subject had not come back after {waiting:.0f} s")
            if not waiting or passed > seconds + _PATIENCE:
                # What the subject does in processes of its own is not on this clock.
                who = "the subject is slow: " if CLOCK.seconds > passed / 2 else ""
                raise SlowError(
                    f"{who}the test had not come to its end after {passed:.0f} s, in which {CLOCK}"
                )

        before = signal.signal(signal.SIGALRM, bark)
        # Again every second: code that swallows the first one must not hang either.
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            with contextlib.suppress(TypeError):
                signal.signal(signal.SIGALRM, before)

    def _limit(self, item: pytest.Item) -> float:
        slow = [limit for name, limit in self._slow.items() if item.get_closest_marker(name)]
        return max(slow, default=self._seconds)
