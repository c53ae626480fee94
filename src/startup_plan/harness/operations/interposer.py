# SPDX-License-Identifier: Apache-2.0
"""Stands between the code of this process and the file system, below chosen folders.

While anything is watched, the functions of `os` that make system calls on files, `open` and
`io.open` are replaced by ones that ask the innermost `Observer` whose folder is concerned; paths
outside every watched folder, and processes without an observer, reach the system as ever.

Modules that are executed while something is watched bind the replacements even by
`from os import replace`. So wrap a boot in `patched(root, subject)`, which sees to it that the
subject's modules are. Once bound, a replacement works as the real function wherever nothing is
watched.

What cannot be seen fails loudly instead of going unseen: a change below a watched folder that did
not come through here (a function bound before, `posix`, `mmap`) or that has no meaning here
(`os.mkfifo`) raises `UnknownOperationError`. Reading that way is let pass. What a C extension or
another program does on its own stays invisible.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from .python_file import InterposedFile, close_quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from startup_plan.harness.world.subject import Subject

    from .operation import Operation

    Result = TypeVar("Result")


class UnknownOperationError(BaseException):
    """A change to the disk that the interposer cannot follow; no verdict may rest on it.

    Not an `Exception`, so that a subject that catches those does not hide it.
    """


def _everything() -> bool:
    return True


class Observer:
    """Sees every operation below a folder, and decides what comes of it.

    Args:
        root: the folder; operations on it itself count as well.

    Attributes:
        root: as given, made absolute.
        unknown: what could not be followed, as sentences.
        sees: whether it sees what this thread does now; everything unless told otherwise.
    """

    strict = True
    """Whether a change that cannot be followed is an error."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """An observer that sees nothing until it is entered."""
        self.root = os.path.abspath(root)
        self.unknown: list[str] = []
        self._roots = tuple({self.root, os.path.realpath(root)})
        self._inside = [f"{folder}{os.sep}" for folder in self._roots]
        self._files: weakref.WeakSet[InterposedFile] = weakref.WeakSet()
        self._fds: set[int] = set()
        self.sees: Callable[[], bool] = _everything

    def covers(self, path: str) -> bool:
        """Whether an absolute path is the folder or lies below it."""
        return path in self._roots or any(path.startswith(folder) for folder in self._inside)

    def operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        """Let `operation` happen by calling `perform`, or not, or more than once.

        `perform` looks at `operation.data` when it writes. Whatever is done to files in here is
        not seen by this observer.
        """
        del operation
        return perform()

    def __enter__(self) -> Self:
        """Begin to see."""
        _install()
        _stack.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        """See no more; what is left open goes to the observer around this one.

        Raises:
            UnknownOperationError: something could not be followed, and that was swallowed.
        """
        _stack.remove(self)
        _uninstall()
        heir = next((o for o in reversed(_stack) if o.covers(self.root)), None)
        if heir is not None:
            heir._files |= self._files
            heir._fds |= self._fds
        else:
            for fd in self._fds:
                descriptors.pop(fd, None)
        if self.unknown and not any(isinstance(what, UnknownOperationError) for what in raised):
            raise UnknownOperationError(self.unknown[0])

    def bury(self) -> None:
        """End the process that was seen: close what it left open; what it buffered is lost."""
        for file in self._files:
            file.orphan()
        for fd in self._fds:
            if descriptors.pop(fd, None) is not None:
                close_quietly(fd)
        self._files.clear()
        self._fds.clear()

    def adopt_file(self, file: InterposedFile) -> None:
        """Remember a file object for `bury`."""
        self._files.add(file)

    def adopt_fd(self, fd: int, path: str) -> None:
        """Remember under which path a descriptor was opened."""
        for observer in _stack:
            observer._fds.discard(fd)
        descriptors[fd] = path
        self._fds.add(fd)

    def refuse(self, sentence: str) -> None:
        """Note what cannot be followed, and stop it."""
        self.unknown.append(sentence)
        raise UnknownOperationError(sentence)


@final
class _Bystander(Observer):
    """Lets everything pass, and knows what is open."""

    strict = False


@contextlib.contextmanager
def patched(root: str | os.PathLike[str], subject: Subject | None = None) -> Iterator[None]:
    """Have the replacements in place for one simulated process, and clean up after it.

    Args:
        root: the folder; observers entered within may watch it or a folder below.
        subject: what will boot; it is executed within, even if its modules could be used again, so
            that functions of `os` which it binds when it is imported are seen as well.
    """
    if subject is not None and not _executed_within.issuperset(subject.instances):
        subject.forget()
    with _Bystander(root) as bystander:
        try:
            yield
        finally:
            bystander.bury()
            if subject is not None:
                _executed_within.update(subject.instances)


_executed_within: Final[weakref.WeakSet[ModuleType]] = weakref.WeakSet()


descriptors: Final[dict[int, str]] = {}
"""Descriptors opened below a watched folder, and the path under which each was opened."""

_stack: Final[list[Observer]] = []
_engaged: Final = threading.local()


def locate(path: Any, dir_fd: Any = None) -> str:
    """`path` as an absolute path, "" if it means nothing here; descriptors as they were opened."""
    if isinstance(path, int):
        return descriptors.get(path, "")
    if (fd := named_descriptor(path)) in descriptors:
        return descriptors[fd]
    try:
        text = os.fsdecode(path)
        if not text.startswith(os.sep):
            base = os.getcwd() if dir_fd is None else descriptors.get(dir_fd)
            text = os.path.join(base or _readlink(f"/proc/self/fd/{dir_fd}"), text)
    except (TypeError, OSError):
        return ""
    return os.path.normpath(text)


def named_descriptor(path: Any) -> int:
    """The descriptor of this process that a path below /proc or /dev names, -1 if it names none."""
    named = isinstance(path, (str, bytes, os.PathLike))
    found = _DESCRIPTOR.fullmatch(os.fsdecode(path)) if named else None
    return int(found[1]) if found else -1


def watching(*paths: str) -> Observer | None:
    """The innermost observer that one of these concerns and that is not at work in this thread."""
    busy = getattr(_engaged, "observers", ())
    for observer in reversed(_stack):
        if observer in busy or not observer.sees():
            continue
        if any(path and observer.covers(path) for path in paths):
            return observer
    return None


def dispatch(observer: Observer, operation: Operation, perform: Callable[[], Result]) -> Result:
    """Have an observer decide on an operation; what it does itself is not put before it."""
    before = getattr(_engaged, "observers", ())
    _engaged.observers = (*before, observer)
    try:
        return observer.operate(operation, perform)
    finally:
        _engaged.observers = before


def mark_injected(error: BaseException) -> BaseException:
    """`error`, marked as ours: a finalizer that raises it is no fault of the test session."""
    error._startup_plan_injected = True  # type: ignore[attr-defined]
    return error


_readlink: Final = os.readlink
_DESCRIPTOR: Final = re.compile(r"(?:/proc/(?:self|thread-self|\d+)|/dev)/fd/(\d+)")
_installed: Final = contextlib.ExitStack()


def _install() -> None:
    if _stack:
        return
    from .replacements import exchange  # noqa: PLC0415  # it needs this module

    _listen()
    _installed.enter_context(exchange())
    for where, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        _installed.callback(setattr, where, name, getattr(where, name))
        setattr(where, name, _quiet(getattr(where, name)))


def _quiet(hook: Callable[[Any], object]) -> Callable[[Any], None]:
    """A hook that passes over what was injected into a finalizer, or into a thread."""

    def quiet(told: Any) -> None:
        if not getattr(told.exc_value, "_startup_plan_injected", False):
            hook(told)

    return quiet


def _uninstall() -> None:
    if not _stack:
        _installed.close()


_CHANGES: Final = {
    "os.remove": (1, (0,)),
    "os.rename": (2, (0, 1)),
    "os.mkdir": (2, (0,)),
    "os.rmdir": (1, (0,)),
    "os.link": (2, (0, 1)),
    "os.symlink": (2, (1,)),
    "os.truncate": (1, (0,)),
    "os.chmod": (2, (0,)),
    "os.chown": (3, (0,)),
    "os.utime": (3, (0,)),
    "os.setxattr": (1, (0,)),
    "os.removexattr": (1, (0,)),
}
"""Audit event -> where its folder descriptor may stand, and its paths."""

_WRITABLE: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_listening = False


def _listen() -> None:
    """Hear of changes that do not come through here; Python has no way to stop listening."""
    global _listening  # noqa: PLW0603  # once in a process, for the reason above
    if not _listening:
        sys.addaudithook(_hear)
        _listening = True


def _maps_for_writing(fd: int, _length: int, access: int) -> bool:
    """Whether a map may change its file: neither a copy nor of a file that is open for reading."""
    if access in (mmap.ACCESS_READ, mmap.ACCESS_COPY) or fd not in descriptors:
        return False
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _stack:
        return
    paths: tuple[str, ...]
    if event == "open":
        path, _, flags = arguments
        paths = (locate(path),) if isinstance(flags, int) and flags & _WRITABLE else ()
    elif event in _CHANGES:
        place, which = _CHANGES[event]
        folder = arguments[place] if place < len(arguments) else -1
        folder = folder if isinstance(folder, int) and folder >= 0 else None
        paths = tuple(locate(arguments[index], folder) for index in which)
    elif event == "mmap.__new__":
        paths = (descriptors.get(arguments[0], "") if _maps_for_writing(*arguments[:3]) else "",)
    else:
        return
    observer = watching(*paths)
    if observer is None or not observer.strict:
        return
    busy = getattr(_engaged, "observers", ())
    # What an inner observer performs is not put before those around it.
    if not any(inner in busy for inner in _stack[_stack.index(observer) :]):
        observer.refuse(
            f"{event} changes {next(path for path in paths if path)} past the functions of os that "
            "are watched; bind them at import, or teach harness/operations/replacements.py this way"
        )
