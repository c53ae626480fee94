# SPDX-License-Identifier: Apache-2.0
"""Ends a test that hangs: a subject may wait for ever, for instance for a lock that it holds."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


class HungError(BaseException):
    """A test of a subject did not come to an end.

    Not an `Exception`, so that a subject that catches those does not go on.
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

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Set an alarm for the time of the call, in the thread that gets signals."""
        watched = item.get_closest_marker("requirement") is not None
        if not watched or threading.current_thread() is not threading.main_thread():
            yield
            return

        slow = [limit for name, limit in self._slow.items() if item.get_closest_marker(name)]
        seconds = max(slow, default=self._seconds)

        def bark(_signal: int, _frame: Any) -> None:
            raise HungError(f"the subject had not come to an end after {seconds:g} s")

        before = signal.signal(signal.SIGALRM, bark)
        # Again every second: code that swallows the first one must not hang either.
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
