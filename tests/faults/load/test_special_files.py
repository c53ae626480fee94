# SPDX-License-Identifier: Apache-2.0
"""What is not a regular file is a miss, and soon: folders, pipes, sockets, devices, links.

Each look-up runs in a process of its own, which can be killed when it waits and cannot take the
memory of the machine. A look-up counts as hung only if it is so twice: one late answer can be the
machine's.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan

if TYPE_CHECKING:
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("LOAD-04")

SECONDS: Final = 1.0
EXTRA_BYTES: Final = 512 * MIB


Place = Callable[[str, contextlib.ExitStack], object]
"""Puts something at a path; what has to stay open meanwhile goes to the stack."""


def _silent_fifo(path: str, stack: contextlib.ExitStack) -> None:
    """A writer holds it open, so that opening it succeeds and reading waits."""
    os.mkfifo(path)
    stack.callback(os.close, os.open(path, os.O_RDWR))


def _socket(path: str, stack: contextlib.ExitStack) -> None:
    """Bound from within its folder: an address has room for 108 bytes only."""
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    here = os.open(".", os.O_PATH)
    try:
        os.chdir(os.path.dirname(path))
        server.bind(os.path.basename(path))
    finally:
        os.fchdir(here)
        os.close(here)
    server.listen()


def _terminal(path: str, stack: contextlib.ExitStack) -> None:
    """A terminal at which nobody types."""
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        pytest.skip(f"this machine gives no terminal: {error}")
    stack.callback(os.close, ours)
    stack.callback(os.close, theirs)
    os.symlink(os.ttyname(theirs), path)


def _loop(path: str, _stack: contextlib.ExitStack) -> None:
    os.symlink(f"{path}.b", path)
    os.symlink(path, f"{path}.b")


def _dangling(path: str, _stack: contextlib.ExitStack) -> None:
    os.symlink(f"{path}.nowhere", path)


def _device(device: str) -> Place:
    def make(path: str, _stack: contextlib.ExitStack) -> None:
        if not os.path.exists(device):
            pytest.skip(f"this machine has no {device}")
        os.symlink(device, path)

    return make


def _linked(make: Place) -> Place:
    def make_linked(path: str, stack: contextlib.ExitStack) -> None:
        make(f"{path}.real", stack)
        os.symlink(f"{path}.real", path)

    return make_linked


PLACES: Final[dict[str, Place]] = {
    "a folder": lambda path, _: os.mkdir(path),
    "a folder with something in it": lambda path, _: os.makedirs(os.path.join(path, "inner")),
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a FIFO with a silent writer": _silent_fifo,
    "a UNIX socket": _socket,
    "a link to itself": lambda path, _: os.symlink(os.path.basename(path), path),
    "a loop of two links": _loop,
    "a link to nowhere": _dangling,
    "a link to a terminal": _terminal,
    "a link to /dev/null": _device("/dev/null"),
    "a link to /dev/zero": _device("/dev/zero"),
    "a link to /dev/full": _device("/dev/full"),
    "a link to /dev/urandom": _device("/dev/urandom"),
    "a link to /dev/tty": _device("/dev/tty"),
    "a link to a folder": _linked(lambda path, _: os.mkdir(path)),
    "a link to a FIFO": _linked(lambda path, _: os.mkfifo(path)),
    "a link to a UNIX socket": _linked(_socket),
    "a link to a link to /dev/zero": _linked(_device("/dev/zero")),
    "a link to a link to nowhere": _linked(_dangling),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file_is_a_miss(world: World, place: str) -> None:
    """Something at the plan's path that is no regular file neither stops nor feeds a boot."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(Reader(world, engine))
        # What the subject imports late is not to be counted against the look-up that is judged.
        reader.look()
        os.unlink(saved.path)
        PLACES[place](saved.path, stack)
        complaint, outcome = reader.look_apart(seconds=SECONDS, extra_bytes=EXTRA_BYTES)
        if outcome.kind == "hung":
            complaint, _ = reader.look_apart(seconds=SECONDS, extra_bytes=EXTRA_BYTES)

    if complaint:
        raise Violation("LOAD-04", f"{place} lay in the place of a plan; {complaint}")
