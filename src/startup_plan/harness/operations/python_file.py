# SPDX-License-Identifier: Apache-2.0
"""Python file objects on top of `os.read`, `os.write` and `os.close`.

The built-in raw file makes its system calls in C, where nobody can see them. This one makes the
same calls through the functions of `os`, looked up at each call, so that what watches those sees
files as well; buffering and text stay the standard library's own.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import warnings
from typing import IO, TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

_fstat: Final = os.fstat
_lseek: Final = os.lseek
_isatty: Final = os.isatty
_close: Final = os.close


@final
class InterposedFile(io.RawIOBase):
    """What `io.FileIO` is, over the functions of `os`.

    Args:
        fd: an open descriptor.
        name: what the caller opened, a path or a descriptor.
        mode: mode of `open`, for example "wb".
        closefd: whether closing the file closes the descriptor.
    """

    def __init__(self, fd: int, name: object, mode: str, *, closefd: bool) -> None:
        """Refuse folders, as `open` does, and go to the end for appending."""
        super().__init__()
        self._fd = fd
        self._closefd = closefd
        # A file that could not be made has no right to close the descriptor.
        self._orphaned = True
        self.name = name
        # As the built-in raw file, which does not remember that it was opened by "w+".
        self.mode = mode.replace("wb+", "rb+")
        if stat.S_ISDIR(_fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if "a" in mode:
            with contextlib.suppress(OSError):
                _lseek(fd, 0, os.SEEK_END)
        self._orphaned = False

    def orphan(self) -> None:
        """Let go of the descriptor: the process that wrote here has ended."""
        self._orphaned = True

    @property
    def closefd(self) -> bool:
        """Whether closing the file closes the descriptor."""
        return self._closefd

    def fileno(self) -> int:
        """The descriptor."""
        self._check_open()
        return self._fd

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return "r" not in self.mode or "+" in self.mode

    def seekable(self) -> bool:
        """Whether the descriptor has a position."""
        self._check_open()
        try:
            _lseek(self._fd, 0, os.SEEK_CUR)
        except OSError:
            return False
        return True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return _isatty(self.fileno())

    def readinto(self, buffer: Any, /) -> int:
        """Read once."""
        self._check_open()
        if not self.readable():
            raise io.UnsupportedOperation("File not open for reading")
        view = memoryview(buffer).cast("B")
        data = os.read(self._fd, len(view))
        view[: len(data)] = data
        return len(data)

    def write(self, data: Any, /) -> int:
        """Write once; fewer bytes than given may be taken."""
        if self._orphaned:
            return memoryview(data).nbytes
        self._check_writable()
        return os.write(self._fd, data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position, in bytes."""
        self._check_open()
        return _lseek(self._fd, offset, whence)

    def tell(self) -> int:
        """The position, in bytes."""
        return self.seek(0, os.SEEK_CUR)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut or extend to `size` bytes, or to the position."""
        self._check_writable()
        length = self.tell() if size is None else size
        os.ftruncate(self._fd, length)
        return length

    def close(self) -> None:
        """Close the descriptor, once."""
        if self.closed:
            return
        super().close()
        if self._closefd and not self._orphaned:
            os.close(self._fd)

    def _check_writable(self) -> None:
        self._check_open()
        if not self.writable():
            raise io.UnsupportedOperation("File not open for writing")

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def flags_of(mode: str) -> int:
    """The flags with which `open` opens a path in this mode; the mode must be a good one."""
    extra = {
        "r": 0,
        "w": os.O_CREAT | os.O_TRUNC,
        "x": os.O_CREAT | os.O_EXCL,
        "a": os.O_CREAT | os.O_APPEND,
    }
    kind = next(letter for letter in mode if letter in extra)
    access = os.O_RDONLY if kind == "r" else os.O_WRONLY
    return (os.O_RDWR if "+" in mode else access) | os.O_CLOEXEC | extra[kind]


def open_file(
    raw_of: Callable[[str], InterposedFile],
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> IO[Any]:
    """What `open` returns, on a raw file that `raw_of` opens once the arguments are known good.

    Raises:
        ValueError: the arguments contradict each other, as for `open`.
    """
    _check(mode, {"encoding": encoding, "errors": errors, "newline": newline})
    binary = "b" in mode
    if binary and buffering == 1:
        warnings.warn(
            "line buffering (buffering=1) isn't supported in binary mode, "
            "the default buffer size will be used",
            RuntimeWarning,
            stacklevel=3,
        )
    raw = raw_of(_raw_mode(mode))
    if buffering == 0:
        if binary:
            return raw  # type: ignore[return-value]  # what open() gives here is a raw file too
        raw.close()
        raise ValueError("can't have unbuffered text I/O")
    size = buffering if buffering > 1 else _buffer_size(raw.fileno())
    buffer: Any
    if "+" in mode:
        buffer = io.BufferedRandom(raw, size)
    elif "r" in mode:
        buffer = io.BufferedReader(raw, size)
    else:
        buffer = io.BufferedWriter(raw, size)
    if binary:
        return buffer  # type: ignore[no-any-return]  # one of the three classes above
    text = io.TextIOWrapper(
        buffer, io.text_encoding(encoding, 3), errors, newline, line_buffering=buffering == 1
    )
    text.mode = mode  # type: ignore[misc]  # open() sets it likewise
    return text


def _check(mode: str, texts: dict[str, str | None]) -> None:
    if set(mode) - set("rwxabt+") or len(set(mode)) < len(mode):
        raise ValueError(f"invalid mode: '{mode}'")
    if "b" in mode and "t" in mode:
        raise ValueError("can't have text and binary mode at once")
    if len(set(mode) & set("rwxa")) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    for what, given in texts.items():
        if "b" in mode and given is not None:
            raise ValueError(f"binary mode doesn't take {'an' if what[0] == 'e' else 'a'} {what}")


def _raw_mode(mode: str) -> str:
    """The mode of the raw file, with `+` last."""
    kind = next(letter for letter in mode if letter in "rwxa")
    return f"{kind}b+" if "+" in mode else f"{kind}b"


def close_quietly(fd: int) -> None:
    """Close a descriptor that nobody is left to close."""
    with contextlib.suppress(OSError):
        _close(fd)


def _buffer_size(fd: int) -> int:
    found = getattr(_fstat(fd), "st_blksize", 0)
    return found if found > 1 else io.DEFAULT_BUFFER_SIZE
