# SPDX-License-Identifier: Apache-2.0
"""What strace saw of a window of system calls, as it printed it.

The lines are those of `strace -f -y -X raw -s 0`: descriptors with their paths, numbers for flags,
no bytes of buffers. The window lies between two looks at paths that nobody else asks for.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN: Final = "/startup-plan-window/begin"
END: Final = "/startup-plan-window/end"
"""Paths that a traced process looks at; they do not exist."""

OPENS: Final = frozenset({"creat", "open", "openat", "openat2"})
READS: Final = frozenset({"pread64", "preadv", "preadv2", "read", "readv"})
WRITES: Final = frozenset({"pwrite64", "pwritev", "pwritev2", "write", "writev"})
REMOVES: Final = frozenset({"rmdir", "unlink", "unlinkat"})

BOOKKEEPING: Final = frozenset({
    "dup", "dup2", "dup3", "fcntl", "fcntl64", "ioctl", "lseek", "_llseek", "mmap",
})  # fmt: skip
"""Calls that the kernel answers from its own tables, without asking a file system."""

_LOOKS: Final = frozenset({
    "access", "chdir", "faccessat", "faccessat2", "fchdir", "fstat", "fstat64", "fstatat64",
    "fstatfs", "getcwd", "getdents", "getdents64", "lstat", "lstat64", "name_to_handle_at",
    "newfstatat", "readlink", "readlinkat", "stat", "stat64", "statfs", "statx",
})  # fmt: skip
_CHANGES: Final = frozenset({
    "chmod", "chown", "fallocate", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat",
    "fdatasync", "flock", "fsync", "ftruncate", "ftruncate64", "futimesat", "lchown", "link",
    "linkat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "symlink", "symlinkat",
    "sync_file_range", "syncfs", "truncate", "truncate64", "utime", "utimensat", "utimes",
    "copy_file_range", "sendfile", "fadvise64", "readahead",
})  # fmt: skip
_KNOWN: Final = (
    OPENS | READS | WRITES | REMOVES | BOOKKEEPING | _LOOKS | _CHANGES | frozenset({"close"})
)


class KernelError(Exception):
    """The tracer did not do what it was asked for, so that nothing is known about the subject."""


@final
class Call(NamedTuple):
    """One system call.

    Attributes:
        name: as strace calls it ("openat").
        nth: how many calls of this name its thread had made by then, itself included.
        thread: which of the threads and processes made it, 0 for the one that was held.
        arguments: as they were printed.
        paths: absolute paths that it concerns, those of descriptors included, in order.
        result: what it returned; None if the process did not live to see it.
        error: name of the error that it returned, "" if none.
        injected: whether that error was injected.
    """

    name: str
    nth: int
    thread: int
    arguments: tuple[str, ...]
    paths: tuple[str, ...]
    result: int | None
    error: str
    injected: bool

    @property
    def place(self) -> tuple[int, str, int]:
        """What `strace -e inject=NAME:when=N` goes by, and in which thread."""
        return self.thread, self.name, self.nth

    def concerns(self, root: str) -> bool:
        """Whether it is about a folder or something below it."""
        return any(path == root or path.startswith(f"{root}{os.sep}") for path in self.paths)


@final
class Seen(NamedTuple):
    """A window.

    Attributes:
        calls: the system calls that concern the root, in order.
        end: the call that closed the window; None if the process did not get there.
    """

    calls: list[Call]
    end: Call | None


_LINE: Final = re.compile(r"(?:\[pid +(\d+)\] )?(.*)")
_CALL: Final = re.compile(r"(\w+)\((.*)\)\s+= (\?|-?\d+|0x[0-9a-f]+)(.*)")
_UNFINISHED: Final = re.compile(r"(\w+)\((.*) <unfinished \.\.\.>(?:\)\s+= \?)?")
_RESUMED: Final = re.compile(r"<\.\.\. (\w+) resumed>,?\s?(.*)")
_ERROR: Final = re.compile(r" (E[A-Z0-9]+)\b")
_ARGUMENT: Final = re.compile(
    r'\s*((?:"(?:[^"\\]|\\.)*"(?:\.\.\.)?|<(?:[^>\\]|\\.)*>|\{[^}]*\}|\[[^\]]*\]|[^,"<{\[])+)'
    r"(?:,|$)"
)
_DESCRIPTOR: Final = re.compile(r"(-?\d+)<((?:[^>\\]|\\.)*)>")


def read_window(text: str, child: int, root: str, folder: str) -> Seen:
    """The system calls between the two marks that concern `root`.

    Args:
        text: what strace printed.
        child: process id of the one that was held.
        root: an absolute path without links.
        folder: the working folder of the process.

    Raises:
        KernelError: there is no beginning, or a call about which it is not known what it does.
    """
    calls: list[Call] = []
    end: Call | None = None
    begun = False
    for call in _calls(text, child, folder):
        if call.paths == (BEGIN,):
            begun = True
        elif call.paths == (END,):
            end = call
            break
        elif begun and call.concerns(root):
            if call.name not in _KNOWN:
                raise KernelError(
                    f"{call.name} on {call.paths[0]}: teach harness/kernel/trace.py what it does"
                )
            calls.append(call)
    if not begun:
        raise KernelError(f"strace did not see the window: {_last_line(text)}")
    return Seen(calls, end)


def _calls(text: str, child: int, folder: str) -> Iterator[Call]:
    """Every call, in the order in which they were begun."""
    order: list[_Entry] = []
    pending: dict[tuple[int, str], _Entry] = {}
    # Strace names the thread of a line only while there are several.
    threads = {"": 0, str(child): 0}
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        name, body = (found[1] or "", found[2]) if found else ("", line)
        thread = threads.setdefault(name, len(threads) - 1)
        if begun := _UNFINISHED.fullmatch(body):
            pending[thread, begun[1]] = entry = _Entry(thread, begun[1], begun[2], "?", "")
            order.append(entry)
        elif resumed := _RESUMED.fullmatch(body):
            whole = None
            if started := pending.pop((thread, resumed[1]), None):
                whole = _CALL.fullmatch(f"{resumed[1]}({started.arguments}{resumed[2]}")
            if started and whole:
                started.arguments, started.result, started.rest = whole[2], whole[3], whole[4]
        elif whole := _CALL.fullmatch(body):
            order.append(_Entry(thread, whole[1], whole[2], whole[3], whole[4]))
    counts: Counter[tuple[int, str]] = Counter()
    for entry in order:
        counts[entry.thread, entry.name] += 1
        yield entry.call(counts[entry.thread, entry.name], folder)


@final
class _Entry:
    """A call as far as it has been printed."""

    def __init__(self, thread: int, name: str, arguments: str, result: str, rest: str) -> None:
        self.thread = thread
        self.name = name
        self.arguments = arguments
        self.result = result
        self.rest = rest

    def call(self, nth: int, folder: str) -> Call:
        arguments = tuple(match[1] for match in _ARGUMENT.finditer(self.arguments))
        error = _ERROR.match(self.rest)
        return Call(
            self.name,
            nth,
            self.thread,
            arguments,
            _paths(arguments, folder),
            None if self.result == "?" else int(self.result, 0),
            error[1] if error else "",
            "(INJECTED)" in self.rest,
        )


def _paths(arguments: tuple[str, ...], folder: str) -> tuple[str, ...]:
    paths: list[str] = []
    base, is_base = folder, False
    for argument in arguments:
        if descriptor := _DESCRIPTOR.match(argument):
            base = descriptor[2]
            is_base = int(descriptor[1]) >= 0
            if is_base:
                paths.append(base)
        elif argument.startswith('"') and argument.endswith('"') and len(argument) > 2:
            if is_base:
                paths.pop()
            is_base = False
            paths.append(os.path.normpath(os.path.join(base, argument[1:-1])))
    return tuple(paths)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
