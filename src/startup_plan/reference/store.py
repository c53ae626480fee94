# SPDX-License-Identifier: Apache-2.0
"""Where plans live: bounded reads, durable writes, and sweeping up after killed saves.

The write protocol, and what each step is for: an exclusive temporary file with an unpredictable
name in the same folder (two savers with one process id, planted links), the whole of the data
(short writes), fsync before the rename (a rename that outlives its data), a checked close (file
systems that report errors late), an atomic replace (readers see old or new), fsync of the folder
(the new name survives a power loss). After the replace nothing can fail any more (SAVE-10).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import Final

from .plan import MAX_PLAN_BYTES, NoPlanError

STALE_SECONDS: Final = 3600
"""A temporary file of this age belongs to a killed save; a younger one may be in use."""

_LEFTOVER: Final = re.compile(
    r"\.startup_plan_[0-9a-f]{16}\.[0-9a-f]{16}\.tmp"  # ours
    r"|startup_plan_[0-9a-f]{16}\.json\.tmp\.[0-9]+"  # of vLLM's own module, same folder
)


def folder_of(cache_root: str) -> str:
    """The folder of the plans of `cache_root` (`VLLM_CACHE_ROOT`)."""
    return os.path.join(cache_root, "startup_plan")


def path_of(cache_root: str, fingerprint: str) -> str:
    """Where the plan of this key is stored (KEY-15)."""
    return os.path.join(folder_of(cache_root), f"startup_plan_{fingerprint}.json")


def load(path: str) -> bytes | None:
    """The bytes at `path`, or None if there is nothing.

    Never blocks, and never reads more than `MAX_PLAN_BYTES` + 1 bytes (LOAD-04, LOAD-05).

    Raises:
        NoPlanError: what is there is no regular file, is too large, or cannot be read.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer that never comes.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        if os.path.islink(path):
            raise NoPlanError("a link that leads nowhere") from None
        return None
    except (OSError, ValueError) as error:
        raise NoPlanError(str(error)) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NoPlanError("not a regular file")
        if found.st_size > MAX_PLAN_BYTES:
            raise NoPlanError(f"{found.st_size} bytes long, a plan has at most 65536")
        data = bytearray()
        while len(data) <= MAX_PLAN_BYTES:
            piece = os.read(fd, MAX_PLAN_BYTES + 1 - len(data))
            if not piece:
                return bytes(data)
            data += piece
        raise NoPlanError("longer than a plan can be")
    except OSError as error:
        raise NoPlanError(str(error)) from None
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def save(path: str, data: bytes) -> None:
    """Put `data` at `path`, whole and durable, or change nothing there.

    Raises:
        OSError: it could not be stored; what was at `path` is untouched and no temporary file is
            left. Anything else that interrupts (KeyboardInterrupt) passes through as cleanly.
    """
    folder, name = os.path.split(path)
    stem = name.removesuffix(".json")
    temporary = os.path.join(folder, f".{stem}.{os.urandom(8).hex()}.tmp")
    try:
        fd = _create(temporary)
    except FileNotFoundError:
        _make_folder(folder)
        fd = _create(temporary)
    try:
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _settle(folder)
    with contextlib.suppress(OSError):
        _sweep(folder)


def _create(path: str) -> int:
    """A new file of our own: no link is followed, nothing that exists is opened (SAVE-05)."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # 0666 less the umask, so that a rank that runs as another user can read it (SAVE-08).
    return os.open(path, flags, 0o666)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(fd, rest)
        if written <= 0:
            raise OSError("the file system accepted no data and gave no reason")
        rest = rest[written:]


def _make_folder(folder: str) -> None:
    """Create `folder` and make the names of all new folders durable (SAVE-06, SAVE-08)."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    if parent and parent != folder:
        _make_folder(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    _settle(parent or ".")


def _settle(folder: str) -> None:
    """Make the names in `folder` survive a power loss, where the file system offers that."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _sweep(folder: str) -> None:
    """Remove what killed saves left behind, once it is old enough to be nobody's (SAVE-03)."""
    oldest = time.time() - STALE_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _LEFTOVER.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime <= oldest:
                    os.unlink(entry.path)
