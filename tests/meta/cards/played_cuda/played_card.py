# SPDX-License-Identifier: Apache-2.0
"""A card that is played: processes share its size, and nothing is ever written.

Its allocations are sparse files, so that a card of 141 GiB takes no memory at all.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from pathlib import Path
from typing import IO, Final

from startup_plan.harness.cards import host as card_host
from startup_plan.harness.stubs.units import MIB

TOTAL: Final = int(os.environ.get("PLAYED_CUDA_BYTES", "0"))
FOLDER: Final = Path(os.environ.get("PLAYED_CUDA_FOLDER", "."))
STEP: Final = 2 * MIB

_numbers: Final = itertools.count(1)
_alive: Final[list[IO[str]]] = []


def _path(number: int) -> Path:
    return FOLDER / f"{os.getpid()}-{number}.held"


def info() -> tuple[int, int]:
    """Free and total bytes."""
    return TOTAL - card_host.used(FOLDER), TOTAL


def take(size: int) -> int | None:
    """Allocate; the number of the allocation, or None if the card has not so much."""
    taken = -(-size // STEP) * STEP
    with card_host._locked(FOLDER):
        if taken > TOTAL - card_host._counted(FOLDER):
            return None
        if not _alive:
            _alive.append((FOLDER / f"{os.getpid()}.alive").open("w"))
            fcntl.flock(_alive[0], fcntl.LOCK_EX)
        number = next(_numbers)
        with _path(number).open("wb") as file:
            file.truncate(taken)
    return number


def give(number: int) -> None:
    """Free an allocation."""
    with card_host._locked(FOLDER):
        _path(number).unlink()
