# SPDX-License-Identifier: Apache-2.0
"""What modules asked their process while they were executed.

That modules have not changed since is no proof that executing them again would give the same: they
may have read a variable, a version or the clock. So the first execution is watched, call by call,
and its result is used again only while everything that it asked for has the same answer.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, Self, final

from startup_plan.harness.stubs.state import active

if TYPE_CHECKING:
    from types import FrameType

_ENVIRON: Final = type(os.environ)
_ONE_VARIABLE: Final = _ENVIRON.__getitem__.__code__
_ALL_VARIABLES: Final = (_ENVIRON.__iter__.__code__, _ENVIRON.__len__.__code__)
_SIMULATION: Final = active.__code__

_SYSTEM: Final = frozenset({
    "_ctypes", "_io", "_posixsubprocess", "_random", "_signal", "_socket", "_uuid", "atexit",
    "fcntl", "grp", "io", "posix", "pwd", "random", "resource", "select", "signal", "time",
})  # fmt: skip
"""Modules whose functions ask or change the process or the system around it."""

_CALENDAR: Final = frozenset({"now", "today", "utcnow"})
_STARTS: Final = frozenset({"start_joinable_thread", "start_new", "start_new_thread"})


@final
class Watch:
    """Watches one execution; afterwards `holds` says whether its result may be used again."""

    __slots__ = ("_all", "_answers", "_asked", "_lines", "_previous", "_restless", "_variables")

    def __init__(self) -> None:
        """Nothing was asked."""
        self._variables: dict[str, str | None] = {}
        self._all: dict[str, str] | None = None
        self._asked = self._restless = False
        self._answers: object = None
        self._lines = 0
        self._previous: Any = None

    def __enter__(self) -> Self:
        """Begin to watch this thread."""
        self._lines = _lines()
        self._previous = sys.getprofile()
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_raised: object) -> None:
        """Note what the answers were."""
        sys.setprofile(self._previous)
        self._restless |= _lines() != self._lines
        self._variables = {name: os.environ.get(name) for name in self._variables}
        if self._all is not None:
            self._all = dict(os.environ)
        if self._asked:
            self._answers = _answers()

    def holds(self) -> bool:
        """Whether everything that was asked for would be answered in the same way now."""
        return (
            not self._restless
            and all(os.environ.get(name) == value for name, value in self._variables.items())
            and (self._all is None or dict(os.environ) == self._all)
            and (not self._asked or _answers() == self._answers)
        )

    def _see(self, frame: FrameType, event: str, function: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code is _ONE_VARIABLE:
                self._variables[str(frame.f_locals["key"])] = None
            elif code in _ALL_VARIABLES:
                self._all = {}
            elif code is _SIMULATION:
                self._asked = True
        elif event == "c_call" and not code.co_filename.startswith("<frozen importlib"):
            self._restless = self._restless or _asks_the_system(function)


def _asks_the_system(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    home = getattr(function, "__module__", None) or kind.__module__
    if home == "posix":
        return name != "fspath" and not name.startswith("_path_")
    if home == "_thread":
        return name in _STARTS
    if home == "datetime":
        return name in _CALENDAR
    return home in _SYSTEM


def _lines() -> int:
    try:
        return len(active().log)
    except RuntimeError:
        return 0


def _answers() -> object:
    """All that a simulated vLLM or torch would answer from, as it is now."""
    try:
        simulation = active()
    except RuntimeError:
        return None
    things: tuple[Any, ...] = (simulation.runtime, *simulation.devices)
    return (
        simulation.current_device,
        frozenset(simulation.broken),
        [[repr(getattr(thing, name)) for name in thing.__slots__] for thing in things],
    )
