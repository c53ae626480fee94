# SPDX-License-Identifier: Apache-2.0
"""One language for what strace saw and what the recorder noted, so that they can be compared.

An event is what changes the disk or makes a change durable, and the opening and closing of files.
Looks and reads are left out, and so are folders that are opened to be listed: Python lists them in
one step, the kernel in four.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple, final

from .trace import OPENS, Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from startup_plan.harness.operations.operation import Operation

_PLAIN: Final = {
    "fchmodat": "chmod",
    "fchmodat2": "chmod",
    "fchownat": "chown",
    "ftruncate64": "ftruncate",
    "lchown": "chown",
    "linkat": "link",
    "mkdirat": "mkdir",
    "pwrite64": "pwrite",
    "pwritev": "pwrite",
    "pwritev2": "pwrite",
    "renameat": "rename",
    "renameat2": "rename",
    "replace": "rename",
    "symlinkat": "symlink",
    "truncate64": "truncate",
    "utimensat": "utime",
    "writev": "write",
}
"""Name of a system call or of a function in `os` -> the name of the event."""

_ON_DESCRIPTOR: Final = frozenset({
    "close", "fchmod", "fchown", "fdatasync", "fsync", "ftruncate", "pwrite", "write",
})  # fmt: skip
_ON_PATH: Final = frozenset({
    "chmod", "chown", "link", "mkdir", "rename", "rmdir", "symlink", "truncate", "unlink", "utime",
})  # fmt: skip
_LISTS: Final = frozenset({"getdents", "getdents64"})
_WITH_MODE: Final = frozenset({"chmod", "fchmod", "mkdir"})
_WITH_SIZE: Final = frozenset({"ftruncate", "truncate"})
_IGNORED_FLAGS: Final = os.O_CLOEXEC | 0o100000  # O_LARGEFILE, which is 0 in Python
_REMOVE_FOLDER: Final = 0x200  # AT_REMOVEDIR


@final
class Event(NamedTuple):
    """Something that happened to the disk.

    Attributes:
        what: "open", "write", "fsync" ….
        paths: what it happened to; a descriptor counts as the path under which it was opened.
        figures: flags and mode of an open, bytes written, offset, length, mode.
        error: name of the error, "" if it went well.
    """

    what: str
    paths: tuple[str, ...]
    figures: tuple[int, ...]
    error: str


def of_operations(operations: Iterable[Operation]) -> list[Event]:
    """The events among what the recorder noted."""
    events = []
    for operation in operations:
        what = _PLAIN.get(operation.name, operation.name)
        error = operation.error
        name = errno.errorcode.get(error.errno or 0, "?") if isinstance(error, OSError) else ""
        figures: tuple[int, ...] = ()
        if what == "open":
            figures = _opening(operation.flags, operation.mode)
        elif what in {"write", "pwrite"}:
            written = operation.result if isinstance(operation.result, int) else -1
            figures = (written, operation.size) if what == "pwrite" else (written,)
        elif what in _WITH_MODE:
            figures = (operation.mode,)
        elif what in _WITH_SIZE:
            figures = (operation.size,)
        elif what not in _ON_DESCRIPTOR | _ON_PATH:
            continue
        both = (operation.path, operation.target)
        paths = both if what in {"link", "rename"} else both[:1]
        events.append(Event(what, paths, figures, name))
    return events


def of_calls(calls: Iterable[Call]) -> list[Event]:
    """The events among what strace saw."""
    calls = list(calls)
    listed = _openings_that_list(calls)
    opened: dict[int, str] = {}
    events = []
    for index, call in enumerate(calls):
        if call.name in OPENS:
            path = call.paths[-1]
            if call.result is not None and call.result >= 0:
                opened[call.result] = "" if index in listed else path
            if index not in listed:
                events.append(Event("open", (path,), _opening(*_flags_of(call)), call.error))
            continue
        what = _PLAIN.get(call.name, call.name)
        if call.name == "unlinkat":
            what = "rmdir" if _number(call.arguments[2]) & _REMOVE_FOLDER else "unlink"
        if what in _ON_DESCRIPTOR:
            fd = int(call.arguments[0].partition("<")[0])
            path = opened.get(fd, call.paths[0])
            if what == "close":
                opened.pop(fd, None)
            if path:
                events.append(Event(what, (path,), _figures(what, call), call.error))
        elif what in _ON_PATH:
            paths = call.paths if what in {"link", "rename"} else call.paths[-1:]
            events.append(Event(what, paths, _figures(what, call), call.error))
    return events


def with_names_in_order(events: Iterable[Event]) -> list[Event]:
    """The events with each path replaced by its number in order of appearance.

    Two saves differ in the names of their temporary files, and in nothing else.
    """
    numbers: dict[str, str] = {}
    return [
        event._replace(
            paths=tuple(numbers.setdefault(path, f"path {len(numbers)}") for path in event.paths)
        )
        for event in events
    ]


def _openings_that_list(calls: list[Call]) -> set[int]:
    """Indices of the calls that open a folder in order to list it."""
    by_descriptor: dict[int, int] = {}
    found = set()
    for index, call in enumerate(calls):
        if call.name in OPENS and call.result is not None and call.result >= 0:
            by_descriptor[call.result] = index
        elif call.name in _LISTS:
            found.add(by_descriptor.get(int(call.arguments[0].partition("<")[0]), -1))
    return found


def _flags_of(call: Call) -> tuple[int, int]:
    if call.name == "creat":
        return os.O_CREAT | os.O_WRONLY | os.O_TRUNC, _number(call.arguments[1])
    at = 2 if call.name == "openat" else 1
    mode = _number(call.arguments[at + 1]) if len(call.arguments) > at + 1 else 0
    return _number(call.arguments[at]), mode


def _opening(flags: int, mode: int) -> tuple[int, int]:
    creates = flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE
    return flags & ~_IGNORED_FLAGS, mode if creates else 0


def _figures(what: str, call: Call) -> tuple[int, ...]:
    if what == "write":
        return (-1 if call.result is None else call.result,)
    if what == "pwrite":
        return (-1 if call.result is None else call.result, _number(call.arguments[3]))
    if what in _WITH_MODE | _WITH_SIZE:
        first = 2 if call.name in {"fchmodat", "fchmodat2", "mkdirat"} else 1
        return (_number(call.arguments[first]),)
    return ()


def _number(text: str) -> int:
    """A number as strace prints it: modes in octal, flags in hexadecimal."""
    is_octal = len(text) > 1 and text[0] == "0" and text[1].isdigit()
    return int(text, 8) if is_octal else int(text, 0)
