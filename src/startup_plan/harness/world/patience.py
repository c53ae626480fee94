# SPDX-License-Identifier: Apache-2.0
"""What a look-up waits for: how often it sleeps, and how often it reads its device.

Nothing here goes by the time that passes. Each look-up runs in a process of its own, in which
sleeping takes no time and every look at a clock finds it a little later, so that a loop that waits
comes to its end at once, and its waits are counted. What waits in the kernel cannot be counted;
that look-up does not come back, while the same one with nothing to wait for does.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from startup_plan.harness.stubs.units import MIB
from startup_plan.support.isolated import run_isolated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .reader import Reader

SECONDS: Final = 2.0
"""How long a look-up may be away before it counts as waiting; a usual one takes milliseconds."""

_EXTRA_BYTES: Final = 512 * MIB
_TICK: Final = 0.001
_MOST: Final = 1000
_LOCKS: Final = frozenset({"fcntl.flock", "fcntl.lockf", "fcntl.fcntl"})
_MAKES: Final = frozenset({"os.mkdir", "os.link", "os.symlink"})

CLOCKS: Final = ("monotonic", "monotonic_ns", "perf_counter", "time", "time_ns")
"""The functions of `time` that tell how time passes."""


def clock_ahead(real: Callable[[], float], ahead: Callable[[], float]) -> Callable[[], float]:
    """A clock that goes before another.

    Args:
        real: the other, which counts nanoseconds where it gives integers, else seconds.
        ahead: by how many seconds, asked at each look.
    """

    def read() -> float:
        by, now = ahead(), real()
        return now + int(by * 1e9) if isinstance(now, int) else now + by

    return read


@final
class EndlessError(BaseException):
    """A look-up waited beyond any measure.

    Not an `Exception`, so that a subject that catches those does not go on.
    """


class Effort(NamedTuple):
    """What one look-up did besides its work.

    Attributes:
        waits: how many times it waited for time to pass.
        seconds: for how long, by its own account.
        readings: how many times it read the memory of its device.
        applied: what it applied, or None.
        end: how it ended; "hung" if it did not come back.
        locks: paths on which it took locks of the kernel, or which it created for itself alone.
    """

    waits: int = 0
    seconds: float = 0.0
    readings: int = 0
    applied: Any = None
    end: str = "hung"
    locks: tuple[str, ...] = ()

    @property
    def hung(self) -> bool:
        """Whether it did not come back."""
        return self.end == "hung"


@final
class _Clock:
    """Time of a process that passes only when somebody sleeps, or looks at a clock."""

    def __init__(self) -> None:
        self.waits = 0
        self.slept = 0.0
        self._looks = 0

    def sleep(self, seconds: float) -> None:
        """Sleep, in no time.

        Raises:
            EndlessError: there is no end of it.
        """
        if seconds <= 0:
            return
        self.waits += 1
        self.slept += seconds
        if self.waits >= _MOST:
            raise EndlessError

    def install(self) -> None:
        """Be the time of this process, for good."""
        for name in CLOCKS:
            vars(time)[name] = clock_ahead(getattr(time, name), self._ahead)
        vars(time)["sleep"] = self.sleep
        vars(select)["select"] = self._choosing(select.select)
        setattr(threading.Condition, "wait", self._waiting(threading.Condition.wait))  # noqa: B010  # mypy lets nobody assign to a method

    def _ahead(self) -> float:
        self._looks += 1
        return self.slept + self._looks * _TICK

    def _waiting(self, real: Callable[..., bool]) -> Callable[..., bool]:
        """What another thread ends is no waiting for time to pass."""

        def wait(condition: threading.Condition, timeout: float | None = None) -> bool:
            came = real(condition, timeout)
            if not came and timeout is not None:
                self.sleep(timeout)
            return came

        return wait

    def _choosing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def choose(*arguments: Any) -> Any:
            if any(arguments[:3]) or arguments[3:] in {(), (None,)}:
                return real(*arguments)
            self.sleep(arguments[3])
            return [], [], []

        return choose


def look(reader: Reader) -> Effort:
    """Let a new process look up its plan, and see what it waits for.

    A look-up that does not come back is tried once more: one late answer can be the machine's.
    """
    for _ in range(2):
        outcome = run_isolated(
            lambda: tuple(_watched(reader)), seconds=SECONDS, extra_bytes=_EXTRA_BYTES
        )
        if outcome.kind != "hung":
            break
    if outcome.kind == "returned":
        return Effort(*outcome.value)
    return Effort(end=outcome.kind)


def _watched(reader: Reader) -> Effort:
    clock = _Clock()
    clock.install()
    seen: list[str] = []
    sys.addaudithook(lambda event, arguments: seen.extend(_held(event, arguments)))
    applied: Any = None
    try:
        # Executed anew within, so that names which it binds at import are those of this process.
        reading = reader.look(contextlib.nullcontext())
        applied, end = reading.applied, str(reading)
    except EndlessError:
        end = "there was no end of it"
    readings = len([query for query, _ in reader.queries if query.endswith("memory")])
    return Effort(clock.waits, clock.slept, readings, applied, end, tuple(dict.fromkeys(seen)))


def _held(event: str, arguments: tuple[Any, ...]) -> Iterator[str]:
    """The paths that an audited call locks, or makes so that nobody else can."""
    if event in _LOCKS:
        with contextlib.suppress(OSError, TypeError):
            number = getattr(arguments[0], "fileno", lambda: arguments[0])()
            yield os.readlink(f"/proc/self/fd/{number}")
        return
    made = event in _MAKES or (event == "open" and arguments[2] & os.O_EXCL)
    path = arguments[0 if event in {"open", "os.mkdir"} else 1] if made else None
    if isinstance(path, (str, bytes, os.PathLike)):
        yield os.path.abspath(os.fsdecode(path))
