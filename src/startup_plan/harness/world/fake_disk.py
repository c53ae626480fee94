# SPDX-License-Identifier: Apache-2.0
"""A world on a disk that does not exist, for a user who is not root.

On a real disk root reads and writes what it likes, and files of several users cannot be had without
root. pyfakefs keeps the modes and owners of POSIX for any user that it is told to be. What needs
the kernel (processes, pipes, devices) needs the real disk.
"""

from __future__ import annotations

import contextlib
import os
import unittest
from typing import TYPE_CHECKING, Final

from pyfakefs.fake_filesystem_unittest import Patcher
from pyfakefs.helpers import set_gid, set_uid

from .engine import Engine
from .world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .subject import Subject

SOMEBODY: Final = 1001
"""The user of a new fake disk; others are any other number but 0, which is root."""

_FOLDER: Final = "/disk"
_TRIED: Final = "/tried"


@contextlib.contextmanager
def fake_world(subject: Subject) -> Iterator[World]:
    """Enter a world whose disk is a fake one, as a user who is not root.

    Args:
        subject: the implementation under test.

    Raises:
        SkipTest: this disk is not real enough for the subject: not even a healthy boot stores a
            plan there that the next one applies.
    """
    with subject.apart(), Patcher():
        for folder in (_TRIED, _FOLDER):
            os.mkdir(folder)
            os.chmod(folder, 0o777)  # noqa: S103  # of this fake disk
        become(SOMEBODY)
        with World(subject, _TRIED) as tried:
            boots = [tried.boot(Engine()) for _ in range(2)]
        if boots[1].applied is None:
            raise unittest.SkipTest(f"on the simulated disk, in good health: {boots[1]}")
        with World(subject, _FOLDER) as world:
            yield world


def become(user: int) -> None:
    """Be another user from now on, on the fake disk that is entered."""
    set_uid(user)
    set_gid(user)
