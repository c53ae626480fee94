# SPDX-License-Identifier: Apache-2.0
"""Somebody else who may write where plans lie: what he plants, and whom it could harm.

Victims lie outside the cache root. Whatever a save does, nothing of them may change, and nothing
may appear beside them.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PRECIOUS: Final = b"nobody else's business\n" * 40


class _Facts(NamedTuple):
    """What can be seen of a file, a folder or a link: mode, contents or text, time in ns."""

    mode: int
    data: bytes
    mtime: int


def _look(path: str) -> _Facts:
    """Look at one thing without following links; the time of a folder does not count."""
    found = os.lstat(path)
    data = b""
    if stat.S_ISLNK(found.st_mode):
        data = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(found.st_mode):
        with open(path, "rb") as stream:
            data = stream.read()
    return _Facts(found.st_mode, data, 0 if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns)


@final
class Victims:
    """A folder outside the cache root, with things in it that belong to somebody else.

    Args:
        folder: where; it must not exist.

    Attributes:
        folder: the folder.
        file: a file in it.
        inner: a folder in it.
        nowhere: a path in it at which there is nothing.
    """

    def __init__(self, folder: str) -> None:
        """Put everything there, as of long ago."""
        self.folder = folder
        self.file = os.path.join(folder, "precious.txt")
        self.inner = os.path.join(folder, "inner")
        self.nowhere = os.path.join(folder, "nowhere")
        os.makedirs(self.inner)
        for path in (self.file, os.path.join(self.inner, "precious.txt")):
            with open(path, "wb") as stream:
                stream.write(_PRECIOUS)
            os.chmod(path, 0o640)
            os.utime(path, (1_000_000_000, 1_000_000_000))
        self._before = self._all()

    def harm(self, *, may_grow: bool = False) -> str:
        """What has been done to them, as a clause of a story, "" if nothing has.

        Args:
            may_grow: whether new files may have come.
        """
        now = self._all()
        for name, facts in self._before.items():
            if name not in now:
                return f"{name}, outside the cache root, is gone"
            if now[name].data != facts.data:
                return f"{name}, outside the cache root, was overwritten"
            if now[name] != facts:
                return f"the mode or the time of {name}, outside the cache root, was changed"
        new = sorted(now.keys() - self._before.keys())
        return f"{new[0]} was created outside the cache root" if new and not may_grow else ""

    def _all(self) -> dict[str, _Facts]:
        """Everything in the folder, as relative path -> what can be seen of it."""
        return {
            os.path.relpath(path, self.folder): _look(path)
            for inside, folders, files in os.walk(self.folder)
            for path in (os.path.join(inside, name) for name in (*folders, *files))
        }


def _symbolic(to: Callable[[Victims], str]) -> Callable[[str, Victims], None]:
    return lambda path, victims: os.symlink(to(victims), path)


PLANTED: Final[Mapping[str, Callable[[str, Victims], None]]] = {
    "a symbolic link to somebody's file": _symbolic(lambda victims: victims.file),
    "a symbolic link to nowhere": _symbolic(lambda victims: victims.nowhere),
    "a symbolic link to somebody's folder": _symbolic(lambda victims: victims.inner),
    "a hard link to somebody's file": lambda path, victims: os.link(victims.file, path),
}
"""What is planted -> how, at a path at which there is nothing."""
