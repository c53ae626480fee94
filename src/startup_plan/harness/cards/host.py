# SPDX-License-Identifier: Apache-2.0
"""A made-up device in the host's memory, shared by real processes.

Each allocation is a file of its full size in one folder, mapped by its owner. So it is memory that
is really taken, everybody can count it from outside, and asking for more than the made-up total is
refused. What a dead process leaves is removed by whoever looks next, as a driver would do it: a
process is alive as long as it holds the lock on a file of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from typing import TYPE_CHECKING, Final, final

from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world.worker_steps import DeviceMemoryError

from .memory import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOTALS: Final = (64 * MIB, 96 * MIB)
"""Memory of the devices of a host; bytes."""

GRANULE: Final = mmap.PAGESIZE

_ALIVE: Final = "alive"
_CHUNK: Final = MIB


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only one who allocates, frees or counts on this device."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def used(folder: Path) -> int:
    """Bytes that living processes hold of the device in `folder`."""
    with _locked(folder):
        return _counted(folder)


def _counted(folder: Path) -> int:
    _clean_up(folder)
    return sum(path.stat().st_size for path in folder.glob("*.held"))


def _clean_up(folder: Path) -> None:
    """Remove what dead processes have left."""
    for alive in folder.glob(f"*.{_ALIVE}"):
        with contextlib.suppress(OSError), alive.open("r") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for held in folder.glob(f"{alive.stem}-*.held"):
                held.unlink()
            alive.unlink()


@final
class HostMemory:
    """The memory of a made-up device as this process sees it.

    Args:
        folder: where the device lies; shared by all of its processes.
        total: its memory in bytes.
    """

    name = "Made-up device in the memory of the host"
    capability = (0, 1)
    granule = GRANULE
    versions = ("2.13.0", "13.0")

    def __init__(self, folder: Path, total: int) -> None:
        """Nothing is taken yet."""
        self._folder = folder
        self._total = total
        self._me = str(os.getpid())
        self._maps: dict[str, mmap.mmap] = {}
        self.buffer = total // 512

    def open(self) -> None:
        """Be alive, and take what a context takes."""
        path = self._folder / f"{self._me}.{_ALIVE}"
        with _locked(self._folder):
            # A process of this number may have died here before.
            _clean_up(self._folder)
            self._alive = path.open("w")
            fcntl.flock(self._alive, fcntl.LOCK_EX)
        self.take("context", self._total // 256)

    def read(self) -> tuple[int, int]:
        """Free and total memory."""
        return self._total - used(self._folder), self._total

    def prepare(self) -> None:
        """Create library handles."""
        self.take("handles", self._total // 512)

    def take(self, label: str, size: int) -> None:
        """Allocate and keep."""
        asked = rounded(size, GRANULE)
        with _locked(self._folder):
            free = self._total - _counted(self._folder)
            if asked > free:
                raise DeviceMemoryError(f"out of memory: {asked} bytes asked, {free} free")
            if not asked:
                return
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._path(label), flags, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, asked)
                self._maps[label] = mmap.mmap(descriptor, asked)
            finally:
                os.close(descriptor)

    def give(self, label: str) -> None:
        """Give back."""
        with _locked(self._folder):
            if (held := self._maps.pop(label, None)) is not None:
                held.close()
                self._path(label).unlink()

    def forward(self, size: int) -> int:
        """One pass: its activations are written and thrown away."""
        self.take("activations", size)
        self.write("activations")
        self.give("activations")
        return rounded(size, GRANULE)

    def capture(self, label: str, size: int) -> int:
        """Keep what graphs would keep."""
        before, _ = self.read()
        self.take(label, size)
        after, _ = self.read()
        return before - after

    def write(self, label: str) -> int:
        """Write everything, then read everything back."""
        held = self._maps.get(label)
        if held is None:
            return 0
        patterns = {
            start: bytes([start // _CHUNK % 251 + 1]) * min(_CHUNK, len(held) - start)
            for start in range(0, len(held), _CHUNK)
        }
        for start, pattern in patterns.items():
            held[start : start + len(pattern)] = pattern
        return sum(
            len(pattern)
            for start, pattern in patterns.items()
            if held[start : start + len(pattern)] == pattern
        )

    def _path(self, label: str) -> Path:
        return self._folder / f"{self._me}-{label}.held"
