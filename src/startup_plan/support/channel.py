# SPDX-License-Identifier: Apache-2.0
"""What runs in a process that answers its parent: one JSON value a line, either way."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


def die_with_parent(parent: int | None = None, number: int = signal.SIGKILL) -> None:
    """Let the kernel end this process when its parent dies, where it can.

    Args:
        parent: the parent's id, to end at once where it has died already; None where who forked
            this process waits for it.
        number: the signal.
    """
    with contextlib.suppress(OSError, AttributeError):
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


@final
class Channel:
    """Lines from and to the parent; whatever else is printed goes to the error stream."""

    def __init__(self) -> None:
        """Take the standard output away from everybody else."""
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """What the parent says, until it says no more."""
        for line in sys.stdin:
            yield json.loads(line)

    def answer(self, said: object) -> None:
        """Say one thing."""
        self._answers.write(json.dumps(said) + "\n")
        self._answers.flush()
