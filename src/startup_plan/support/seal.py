# SPDX-License-Identifier: Apache-2.0
"""Whether somebody else's code has changed the process in which it is judged.

A subject runs in the process of the test that judges it. Two things may not outlive a test: a
function of the judge, of pytest, or of the standard library that the subject replaced, because no
verdict that comes after can be trusted; and a setting of the process, which is only put back.
"""

from __future__ import annotations

import contextlib
import gc
import locale
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

_LIBRARY: Final = (
    "builtins", "io", "json", "json.decoder", "json.encoder", "os", "pathlib", "shutil", "signal",
    "stat", "subprocess", "tempfile", "threading", "time", "tomllib", "traceback", "unittest.mock",
)  # fmt: skip
_JUDGES: Final = ("pytest", "_pytest", "pluggy", "hypothesis", "xdist", "execnet", "startup_plan")
_WITH_CLASSES: Final = ("_pytest", "pluggy", "startup_plan")
"""Packages whose classes are watched too; to look at all would cost a millisecond a test."""
_SUBJECT: Final = "startup_plan.reference"
_TOLD: Final = 3
_ENVIRONMENT: Final[dict[Any, Any]] = vars(os.environ)["_data"]
"""The environment as the interpreter keeps it: to copy the mapping decodes every name."""


@final
class Seal:
    """The functions and classes that a judge relies on, as they were when this was made."""

    __slots__ = ("_spaces",)

    def __init__(self) -> None:
        """Take stock of what is imported."""
        self._spaces: list[tuple[str, Any, tuple[str, ...], list[Any]]] = []
        for name, module in sorted(sys.modules.items()):
            if _is_relied_on(name):
                self._take(name, module)

    def _take(self, name: str, module: ModuleType) -> None:
        self._note(name, module)
        if name.partition(".")[0] in _WITH_CLASSES:
            for owner in list(vars(module).values()):
                if isinstance(owner, type) and owner.__module__ == name:
                    self._note(f"{name}.{owner.__qualname__}", owner)

    def _note(self, name: str, space: Any) -> None:
        names = tuple(key for key, value in vars(space).items() if callable(value))
        self._spaces.append((name, space, names, [vars(space)[key] for key in names]))

    def broken(self) -> list[str]:
        """Name what was replaced, and put it back."""
        found: list[str] = []
        for name, space, names, values in self._spaces:
            present = vars(space)
            # Equality of lists begins with identity, and functions have nothing else.
            if list(map(present.get, names)) == values:
                continue
            for key, value in zip(names, values, strict=True):
                if present.get(key) is not value:
                    setattr(space, key, value)
                    found.append(f"{name}.{key}")
        return found


def described(replaced: list[str]) -> str:
    """Say which functions were replaced, as a verb phrase."""
    more = len(replaced) - _TOLD
    rest = f" and {more} more" if more > 0 else ""
    return f"replaces {', '.join(replaced[:_TOLD])}{rest} of the process that judges it"


@contextlib.contextmanager
def process_kept() -> Iterator[None]:
    """Put back, after the block, what a process has of its own: environment, folder and umask.

    A simulated boot is a process, and this is entered around each, so it looks before it writes.
    """
    folder, environ, umask = _folder(), _ENVIRONMENT.copy(), os.umask(0o022)
    os.umask(umask)
    try:
        yield
    finally:
        if environ != _ENVIRONMENT:
            _put_back(environ)
        os.umask(umask)
        if _folder() != folder:
            os.chdir(folder)


@contextlib.contextmanager
def settings_kept() -> Iterator[None]:
    """Put back, after the block, every setting of the process that a subject may leave changed."""
    limit, collects, conventions = (
        sys.getrecursionlimit(),
        gc.isenabled(),
        locale.setlocale(locale.LC_ALL),
    )
    streams = sys.stdin, sys.stdout, sys.stderr
    handlers = _handlers()
    try:
        with process_kept():
            yield
    finally:
        sys.setrecursionlimit(limit)
        (gc.enable if collects else gc.disable)()
        locale.setlocale(locale.LC_ALL, conventions)
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, handler in _changed(handlers):
            signal.signal(number, handler)


def _is_relied_on(name: str) -> bool:
    if name.partition(".")[0] in _JUDGES:
        return name != _SUBJECT and not name.startswith(f"{_SUBJECT}.")
    return name in _LIBRARY


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep  # somebody removed it; no process can go back there


def _put_back(environ: dict[Any, Any]) -> None:
    for name in _ENVIRONMENT.keys() - environ.keys():
        del os.environ[os.fsdecode(name)]
    for name, value in environ.items():
        if _ENVIRONMENT.get(name) != value:
            os.environ[os.fsdecode(name)] = os.fsdecode(value)


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _changed(before: dict[int, Any]) -> Iterable[tuple[int, Any]]:
    for number, handler in _handlers().items():
        if handler is not before[number] and before[number] is not None:
            yield number, before[number]
