# SPDX-License-Identifier: Apache-2.0
"""Folders that a run needs and leaves nothing of."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEMORY: Final = Path("/dev/shm")  # noqa: S108


def fastest_folder() -> Path:
    """Give the memory file system where there is one: fsync on a disk takes milliseconds."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK | os.X_OK)
    return _MEMORY if usable else Path(tempfile.gettempdir())


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Make a folder with a short name, and remove it with all that was put into it."""
    folder = make_scratch(parent)
    try:
        yield folder
    finally:
        remove_scratch(folder)


def make_scratch(parent: Path | None = None) -> Path:
    """Make a folder with a short name; sockets have to fit a path of 108 bytes."""
    return Path(tempfile.mkdtemp(prefix="startup-plan-", dir=parent))


def remove_scratch(folder: Path) -> None:
    """Remove a folder, also where a test took away its own permissions; never raise."""
    shutil.rmtree(folder, onerror=_make_removable)


def _make_removable(call: Callable[..., object], path: str, _error: object) -> None:
    with contextlib.suppress(OSError):
        Path(path).parent.chmod(0o700)
        if not Path(path).is_symlink():
            Path(path).chmod(0o700)
        if call in (os.open, os.scandir):
            shutil.rmtree(path, ignore_errors=True)
        else:
            call(path)
