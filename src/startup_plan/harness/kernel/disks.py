# SPDX-License-Identifier: Apache-2.0
"""Real disks that are full or read-only, and one folder in two places.

They are mounted in a child process with a mount namespace of its own, which nobody else sees and
which goes when the child ends, however it ends.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.violation import NeverReachedError, UndecidedError, Violation
from startup_plan.support.isolated import run_isolated

from .trace import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
"""Bytes; a memory file system hands out no less."""

_CLONE_NEWNS: Final = 0x20000
_MS_RDONLY: Final = 1
_MS_REMOUNT: Final = 32
_MS_BIND: Final = 4096
_MS_PRIVATE: Final = 0x40000 | 0x4000  # with MS_REC
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SECONDS: Final = 60.0
_EXTRA_BYTES: Final = 2**30


def with_own_mounts(call: Callable[[], Any]) -> Any:
    """Run `call` in a child process that may mount what it likes; give what it returned.

    Raises:
        Violation: the call raised one.
        NeverReachedError: likewise.
        UndecidedError: the call raised something else, or did not come to an end.
        KernelError: the kernel refused a mount.
    """
    outcome = run_isolated(
        call, seconds=_SECONDS, extra_bytes=_EXTRA_BYTES, prepare=_leave_shared_mounts
    )
    if outcome.kind == "returned":
        return outcome.value
    kind, _, story = outcome.error.partition(": ")
    if kind == KernelError.__name__:
        raise KernelError(story)
    if kind == NeverReachedError.__name__:
        raise NeverReachedError(story)
    if kind == Violation.__name__:
        raise Violation(None, story)
    raise UndecidedError(f"a process with mounts of its own {outcome}")


def mount_memory(folder: str, *, size: int, inodes: int) -> None:
    """Put an empty memory file system over a folder.

    Args:
        folder: where.
        size: bytes that it can hold.
        inodes: files and folders that it can hold, itself included.
    """
    options = f"size={size},nr_inodes={inodes},mode=0777"
    _mount(b"tmpfs", folder, b"tmpfs", 0, options.encode())


def bind(folder: str, place: str) -> None:
    """Let `place` be another name of `folder`, a mount point of its own."""
    _mount(os.fsencode(folder), place, None, _MS_BIND, None)


def make_read_only(place: str) -> None:
    """Let the kernel refuse every change below a mount point.

    Raises:
        KernelError: it refuses to do so.
    """
    _mount(b"none", place, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY, None)
    if not os.statvfs(place).f_flag & os.ST_RDONLY:
        raise KernelError(f"{place} can still be written to")


def fill_with_bytes(folder: str, *, spare: int) -> list[str]:
    """Take all the space of a file system but some pages; give the files that take it.

    Raises:
        KernelError: it is not as full afterwards as it should be.
    """
    filler = os.path.join(folder, "filler")
    with open(filler, "wb", buffering=0) as stream:
        while _fits(lambda: stream.write(bytes(PAGE))):
            pass
        stream.truncate(max(stream.tell() // PAGE - spare, 0) * PAGE)
    _expect(os.statvfs(folder).f_bavail, spare, "pages")
    return [filler]


def fill_with_files(folder: str, *, spare: int) -> list[str]:
    """Take all the inodes of a file system but some; give the files that take them.

    Raises:
        KernelError: it is not as full afterwards as it should be.
    """
    names = (os.path.join(folder, f"filler{number}") for number in itertools.count())
    fillers = list(itertools.takewhile(lambda name: _fits(lambda: _make(name)), names))
    for name in fillers[:spare]:
        os.unlink(name)
    _expect(os.statvfs(folder).f_favail, spare, "inodes")
    return fillers[spare:]


def _make(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def _fits(step: Callable[[], object]) -> bool:
    """Whether there was room for it."""
    try:
        step()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


def _expect(found: int, wanted: int, what: str) -> None:
    if found != wanted:
        raise KernelError(f"{found} {what} are free, there should be {wanted}")


def _leave_shared_mounts() -> None:
    _checked(_LIBC.unshare(_CLONE_NEWNS), "unshare")
    _mount(None, "/", None, _MS_PRIVATE, None)


def _mount(
    source: bytes | None, place: str, kind: bytes | None, flags: int, options: bytes | None
) -> None:
    target = os.fsencode(place)
    _checked(_LIBC.mount(source, target, kind, ctypes.c_ulong(flags), options), f"mount {place}")


def _checked(result: int, what: str) -> None:
    if result:
        raise KernelError(f"{what}: {os.strerror(ctypes.get_errno())}")
