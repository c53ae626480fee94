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
    from collections.abc import Iterator

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
    """Remove a folder, also where a test took permissions away; never raise."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _open_up(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _open_up(folder: Path) -> None:
    """Make every folder in `folder` one that its owner may list and empty."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    for parent, children, _ in os.walk(folder):
        for child in children:
            path = Path(parent, child)
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
