# SPDX-License-Identifier: Apache-2.0
"""A tripwire on a folder: which paths in it a subject looks at, reads, or writes.

Some requirements say that nothing is touched (GATE-05, GATE-06). The contents of a folder do not
show a look that found nothing, so the calls themselves are noted, by their path. A subject that
took its own reference to a function when it was imported (`from os import stat`) is not seen
looking; what it then writes still shows in the folder.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CALLS: Final = (
    "access", "chmod", "chown", "link", "listdir", "lstat", "mkdir", "mkfifo", "open", "readlink",
    "remove", "rename", "replace", "rmdir", "scandir", "stat", "statvfs", "symlink", "truncate",
    "unlink", "utime",
)  # fmt: skip


@contextlib.contextmanager
def touches(folder: str) -> Iterator[list[str]]:
    """Note every call that is given `folder` or a path below it.

    Args:
        folder: absolute path; it need not exist.

    Yields:
        What was noted, as "call path" with the path relative to `folder`; it grows until the end.
    """
    noted: list[str] = []
    with contextlib.ExitStack() as undo:
        for module, names in ((os, _CALLS), (io, ("open",)), (builtins, ("open",))):
            for name in names:
                original = getattr(module, name)
                undo.callback(setattr, module, name, original)
                setattr(module, name, _noting(name, original, folder, noted))
        yield noted


def _noting(name: str, call: Callable[..., Any], folder: str, noted: list[str]) -> Any:
    @functools.wraps(call)
    def noting(*args: Any, **named: Any) -> Any:
        for given in (*args[:2], *named.values()):
            if isinstance(given, (str, bytes, os.PathLike)):
                path = os.path.abspath(os.fsdecode(given))
                if path == folder or path.startswith(f"{folder}{os.sep}"):
                    noted.append(f"{name} {os.path.relpath(path, folder)}")
        return call(*args, **named)

    return noting
