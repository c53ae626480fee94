# SPDX-License-Identifier: Apache-2.0
"""A test that runs out of time: who took it."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.session import watchdog
from startup_plan.harness.session.watchdog import HungError, SlowError, Watchdog
from startup_plan.harness.world.calls import CLOCK, call

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_NEVER: Final = threading.Event()
_DEAF: Final = """
import signal, sys
from types import SimpleNamespace
from startup_plan.harness.session import watchdog
watchdog._GRACE = 0.2
item = SimpleNamespace(get_closest_marker=lambda name: name == "requirement")
around = watchdog.Watchdog(0.1, 0.1, 0.1).pytest_runtest_protocol(item)
next(around)
for number in (signal.SIGALRM, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sum(iter(int, 1))
"""
"""A subject that hears no signal and holds the interpreter's lock for ever."""


@pytest.fixture
def running() -> Generator[Callable[[Callable[[], object]], None]]:
    """Runs a body as the call of a test that has a fifth of a second."""
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name == "requirement")

    def run(body: Callable[[], object]) -> None:
        around = Watchdog(0.2, 0.2, 0.2).pytest_runtest_call(item)
        CLOCK.restart()
        next(around)
        try:
            while True:
                body()
        finally:
            around.close()

    yield run
    CLOCK.restart()


def test_a_call_that_does_not_come_back_is_a_hang(
    running: Callable[[Callable[[], object]], None],
) -> None:
    """A subject that is still in one call when time is up has hung, whatever it catches."""

    def look_up() -> None:
        try:
            _NEVER.wait(60)
        except Exception as error:
            raise AssertionError("it could be caught") from error

    with pytest.raises(HungError, match="had not come back"):
        running(lambda: call(look_up))


def test_calls_that_come_back_are_slow(
    running: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subject that came back again and again is slow, and is told how slow."""
    monkeypatch.setattr(watchdog, "_PATIENCE", 0.1)
    with pytest.raises(
        SlowError,
        match=r"^the subject is slow: .* [1-9]\d* look-ups and saves took [01]\.\d s, the longest",
    ):
        running(lambda: call(_NEVER.wait, 0.01))


def test_time_that_nobody_took_is_not_blamed_on_the_subject(
    running: Callable[[Callable[[], object]], None],
) -> None:
    """Where the test itself takes the time, the subject's part is none."""
    with pytest.raises(SlowError, match=r"^the test had not .* 0 look-ups and saves took 0\.0 s"):
        running(lambda: _NEVER.wait(0.01))


def test_a_process_that_hears_nothing_is_ended() -> None:
    """Neither ignored signals nor the interpreter's lock keep a process from its end."""
    done = subprocess.run(
        [sys.executable, "-c", _DEAF], check=False, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, "Timeout" in done.stderr) == (1, True)
