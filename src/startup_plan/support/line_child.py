# SPDX-License-Identifier: Apache-2.0
"""Processes that answer lines with lines, and are ended and waited for by whoever started them.

A process is either started with an interpreter of its own, or forked from a nursery: a process that
has imported torch, which takes seconds, and has never touched a device.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from .environment import DEVICES, clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping


class ChildError(RuntimeError):
    """A process of ours failed; that says nothing about a subject."""


ANSWER_SECONDS: Final = 50.0
"""A process that says nothing for so long is given up."""

_IMPORT_SECONDS: Final = 150.0
"""The same for importing torch, from a disk that nobody has read yet."""

END_SECONDS: Final = 10.0
"""How long a process has for its end, once it was asked for."""


class Handle(Protocol):
    """A process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its id, nobody else's until it was waited for."""

    def kill(self) -> None:
        """Kill it."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; `subprocess.TimeoutExpired` if that does not come."""


@final
class Child:
    """A process that answers lines with lines.

    Args:
        handle: the process.
        line: our end of the line to it.
        errors: a file that takes what it prints.
        what: what messages call it.
    """

    def __init__(
        self, handle: Handle, line: socket.socket, errors: Path, what: str = "a process on the card"
    ) -> None:
        """It is running."""
        self._handle = handle
        self._socket = line
        self._line = line.makefile("rw", encoding="utf-8")
        self._errors = errors
        self._what = what
        self.pid = handle.pid

    def tell(self, said: object) -> None:
        """Say one thing that has no answer."""
        with contextlib.suppress(BrokenPipeError):
            self._line.write(json.dumps(said) + "\n")
            self._line.flush()

    def ask(self, said: object, seconds: float = ANSWER_SECONDS) -> Any:
        """Say one thing and give the answer.

        Raises:
            ChildError: it has died, or does not answer in time.
        """
        self.tell(said)
        return self.hear(seconds)

    def hear(self, seconds: float = ANSWER_SECONDS) -> Any:
        """What it says next, within `seconds`.

        Raises:
            ChildError: as `ask`.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            heard = bool(selector.select(seconds))
        line = ""
        with contextlib.suppress(ConnectionResetError):
            line = self._line.readline() if heard else ""
        if not line:
            self.kill()
            fate = "died" if heard else f"gave no answer in {seconds:.0f} s"
            raise ChildError(f"{self._what} {fate}: {self._last_words()}")
        return json.loads(line)

    def end(self) -> None:
        """Let it come to its end, and wait for that."""
        self._hang_up()
        try:
            self._handle.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it and wait for it, though perhaps not for its memory."""
        self._hang_up()
        self._handle.kill()
        self._handle.wait()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._line.close()
        self._socket.close()

    def _last_words(self) -> str:
        lines = self._errors.read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"


def spawn(
    program: list[str],
    arguments: list[str],
    errors: Path,
    *,
    keep: tuple[str, ...] = DEVICES,
    variables: Mapping[str, str] | None = None,
    what: str = "a process on the card",
) -> Child:
    """Start a process with an interpreter of its own.

    Args:
        program: what the interpreter runs, a script or `-m` and a module.
        arguments: its arguments; `--parent` and the process to die with come before them.
        errors: a file that takes what it prints.
        keep: beginnings of hidden variables that it needs.
        variables: further variables for it.
        what: what messages call it.
    """
    environment = clean_environment(keep) | dict(variables or {})
    # The child belongs to the package that this process has loaded.
    package = os.fspath(Path(__file__).parents[2])
    paths = [package, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    ours, theirs = socket.socketpair()
    with theirs, errors.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603  # this interpreter, our own program
            [sys.executable, *program, "--parent", str(os.getpid()), *arguments],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=stream,
            env=environment,
            # Ctrl-C is for the parent, which ends its processes one by one.
            start_new_session=True,
        )
    return Child(process, ours, errors, what)


@final
class Nursery:
    """Forks processes that have torch imported already; leave it to end whatever lives there.

    Args:
        script: that of an engine.
        backend: where its engines take memory.
        errors: a file that takes what they print.

    Raises:
        ChildError: it cannot be started; with the reason.
    """

    def __init__(self, script: Path, backend: str, errors: Path) -> None:
        """Start it, and wait until it has imported what takes time."""
        self._errors = errors
        # Nobody reads lines here: descriptors travel beside the words.
        self._child = spawn([str(script)], ["--backend", backend, "--nursery"], errors)
        self._child.hear(_IMPORT_SECONDS)

    def fork(self, arguments: list[str]) -> Child:
        """A fresh process that runs an engine with these arguments."""
        ours, theirs = socket.socketpair()
        with theirs:
            answer = self.ask({"fork": arguments}, theirs.fileno())
        return Child(_Forked(self, int(answer["pid"])), ours, self._errors)

    def close(self) -> None:
        """End it; what it has forked dies with it."""
        self._child.kill()

    def ask(self, said: dict[str, Any], *descriptors: int) -> Any:
        """Ask for a process, or something about one that was forked here.

        Raises:
            ChildError: the nursery has ended.
        """
        line = json.dumps(said).encode() + b"\n"
        try:
            socket.send_fds(self._child._socket, [line], descriptors)
        except OSError as error:
            raise ChildError(f"the nursery is no more: {error}") from None
        return self._child.hear()


@final
class _Forked:
    """A process of a nursery, which is its parent and alone can wait for it."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self._over = False
        self.pid = pid

    def kill(self) -> None:
        # Without its nursery it has ended already.
        with contextlib.suppress(ChildError):
            if not self._over:
                self._nursery.ask({"kill": self.pid})

    def wait(self, timeout: float | None = None) -> int:
        seconds = END_SECONDS if timeout is None else timeout
        with contextlib.suppress(ChildError):
            if not self._over:
                answer = self._nursery.ask({"wait": self.pid, "seconds": seconds})
                if not answer["over"]:
                    raise subprocess.TimeoutExpired("a forked engine", seconds)
        self._over = True
        return 0
