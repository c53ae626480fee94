# SPDX-License-Identifier: Apache-2.0
"""One system call on a path below a watched folder, as it was asked for and what came of it."""

from __future__ import annotations

import os
from typing import Any, Final, final

WRITES: Final = frozenset({"write", "pwrite"})
"""Operations that put bytes into a file."""

REMOVES: Final = frozenset({"unlink", "rmdir"})
"""Operations that take a name away and give space back."""

_CHANGES: Final = WRITES | REMOVES | frozenset({
    "chmod", "chown", "fchmod", "fchown", "ftruncate", "link", "mkdir", "rename", "replace",
    "posix_fallocate", "symlink", "truncate", "utime",
})  # fmt: skip
_TAKES_SPACE: Final = frozenset({
    "fdatasync", "fsync", "link", "mkdir", "posix_fallocate", "rename", "replace", "symlink",
})  # fmt: skip
_UNSEEN: Final = frozenset({"close", "fdatasync", "fsync"})

_TEMPORARY: Final = getattr(os, "O_TMPFILE", 0)


@final
class Operation:
    """A system call; every figure is as the caller gave it.

    Attributes:
        index: 1 for the first one that its trace has seen.
        name: the function in `os` that stands for it; `remove` is "unlink", `writev` is "write",
            and writing through a Python file object is "write" once for each buffer that it hands
            to the system.
        path: absolute path of what it acts on; for an operation on a descriptor, the path under
            which that was opened.
        target: absolute destination of a rename or a link, the text of a symbolic link, else "".
        fd: the descriptor that it acts on or has opened, for a link the one that is given a name,
            else -1.
        flags: flags of an open.
        mode: permission bits of an open, mkdir or chmod, and the question of an access.
        size: bytes asked for by a read, length in bytes of a truncate, the least length in bytes
            of an allocation, offset in bytes of a write
            (of one through the position of the descriptor once it has happened).
        data: bytes to be written; bytes that a read has brought.
        result: what it returned, once it has.
        error: what it raised, or None.
    """

    __slots__ = (
        "data", "error", "fd", "flags", "index", "mode", "name", "path", "result", "size", "target",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        path: str,
        *,
        target: str = "",
        fd: int = -1,
        flags: int = 0,
        mode: int = 0,
        size: int = 0,
        data: bytes = b"",
    ) -> None:
        """An operation that has not happened yet."""
        self.index = 0
        self.name = name
        self.path = path
        self.target = target
        self.fd = fd
        self.flags = flags
        self.mode = mode
        self.size = size
        self.data = data
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def opens_for_writing(self) -> bool:
        """Whether it opens a file that can be written through it."""
        return self.name == "open" and bool(self.flags & (os.O_WRONLY | os.O_RDWR))

    @property
    def may_create(self) -> bool:
        """Whether it opens a file that need not exist."""
        return self.name == "open" and bool(self.flags & os.O_CREAT or self.is_unnamed)

    @property
    def new_name(self) -> str:
        """The path at which it may put a file that was not there, "" if it gives none a name."""
        if self.name == "link":
            return self.target
        return self.path if self.may_create and not self.is_unnamed else ""

    @property
    def is_exclusive(self) -> bool:
        """Whether it makes a file that nobody can have put there, or led elsewhere, before."""
        if self.name == "link" or self.is_unnamed:
            return True
        return bool(self.flags & os.O_CREAT and self.flags & os.O_EXCL)

    @property
    def is_unnamed(self) -> bool:
        """Whether it opens a file that has no name yet."""
        return bool(_TEMPORARY) and self.flags & _TEMPORARY == _TEMPORARY

    @property
    def changes_files(self) -> bool:
        """Whether another process can see that it has happened."""
        opens = self.name == "open" and bool(self.flags & (os.O_CREAT | os.O_TRUNC))
        return opens or self.name in _CHANGES

    @property
    def meets_others(self) -> bool:
        """Whether it matters if another process acts just before it or just after it."""
        return self.name not in _UNSEEN

    @property
    def takes_space(self) -> bool:
        """Whether a full disk can refuse it."""
        return self.may_create or self.name in WRITES or self.name in _TAKES_SPACE

    def __repr__(self) -> str:
        """For a person who looks at a trace."""
        parts = [os.path.basename(self.path)]
        if self.target:
            parts.append(os.path.basename(self.target))
        if self.data:
            parts.append(f"{len(self.data)} bytes")
        return f"{self.index}:{self.name}({', '.join(parts)})"
