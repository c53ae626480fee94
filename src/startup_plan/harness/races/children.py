# SPDX-License-Identifier: Apache-2.0
"""Child processes that save and read at the same time, and one way to take them by the hand.

Children are forks, so that they have everything the test has prepared; they leave through
`os._exit` without running anybody's clean-up, and die with the test process.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, final

from startup_plan.harness.operations.interposer import Observer
from startup_plan.harness.operations.operation import WRITES, Operation
from startup_plan.support.channel import die_with_parent
from startup_plan.support.process_group import fork

from .sequencer import PATIENCE, DeadlockError, Paced, StuckError, direct, waits_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from .sequencer import Leg, Played

    Result = TypeVar("Result")

_DISMISS: Final = -1
_ON: Final = -2


class Ending(NamedTuple):
    """How a child has ended.

    Attributes:
        value: what its work returned, None if it did not come to that.
        error: what its work raised, in words, or "".
        killed: the signal that ended it, 0 if none did.
        hung: whether it had not ended in time, and was killed for that.
    """

    value: Any = None
    error: str = ""
    killed: int = 0
    hung: bool = False


def run_together(
    preparations: Sequence[Callable[[], Callable[[], object]]],
    *,
    seconds: float,
    when_ready: Callable[[], object] | None = None,
) -> list[Ending]:
    """Run several works at once, each in a process of its own.

    Args:
        preparations: one for each process; it is called there before any of them begins to work,
            and returns the work. What the work returns must survive a pickle.
        seconds: how long all of it may take, preparation included.
        when_ready: called here once all are ready, just before they begin to work.
    """
    deadline = time.monotonic() + seconds
    gate, opener = os.pipe()
    ready, announce = os.pipe()
    children: list[_Child] = []
    try:
        pipes = (gate, opener, announce)
        children.extend(_Child(prepare, pipes) for prepare in preparations)
        os.close(announce)
        announce = -1
        missing = len(children)
        while missing > 0 and _readable(ready, deadline):
            missing -= len(os.read(ready, missing)) or missing
        if when_ready is not None:
            when_ready()
        os.close(opener)
        opener = -1
        return [child.ending(deadline) for child in children]
    finally:
        for child in children:
            child.end()
        for fd in (gate, opener, ready, announce):
            if fd >= 0:
                os.close(fd)


@final
class _Child:
    """One process of many."""

    def __init__(
        self, prepare: Callable[[], Callable[[], object]], pipes: tuple[int, int, int]
    ) -> None:
        self._reading, writing = os.pipe()
        self._status: int | None = None
        self._pid = fork()
        if self._pid == 0:
            gate, opener, announce = pipes

            def all_of_it() -> object:
                os.close(opener)
                work = prepare()
                os.write(announce, b".")
                os.close(announce)
                os.read(gate, 1)
                return work()

            _be_child(writing, all_of_it)
        os.close(writing)

    def ending(self, deadline: float) -> Ending:
        message = b""
        while _readable(self._reading, deadline):
            part = os.read(self._reading, 65536)
            if not part:
                break
            message += part
        else:
            self.end()
            return Ending(hung=True)
        self.end(kill=False)
        code = os.waitstatus_to_exitcode(self._status or 0)
        if message:
            value, error = pickle.loads(message)  # noqa: S301  # written by our own child
            return Ending(value, error)
        return Ending(killed=-code) if code < 0 else Ending(error=f"left with status {code}")

    def end(self, *, kill: bool = True) -> None:
        if self._status is not None:
            return
        if kill:
            os.kill(self._pid, signal.SIGKILL)
        _, self._status = os.waitpid(self._pid, 0)
        os.close(self._reading)


def _readable(fd: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _be_child(writing: int, work: Callable[[], object]) -> None:
    """Everything that a child does; never returns."""
    try:
        die_with_parent()
        try:
            found = (work(), "")
        except BaseException as error:
            found = (None, f"{type(error).__name__}: {str(error)[:200]}")
        rest = memoryview(pickle.dumps(found))
        while rest:
            rest = rest[os.write(writing, rest) :]
    finally:
        os._exit(0)


@final
class Jostled(Observer):
    """Lets other processes go first at each operation below a folder; may end by SIGKILL in one.

    Args:
        root: the folder.
        passing: called before each operation, with its number from 0 since the counting began.

    Attributes:
        fatal: number of the operation in which it ends, -1 if there is no end.
    """

    strict = False

    def __init__(self, root: str | os.PathLike[str], passing: Callable[[int], object]) -> None:
        """A process that does not count yet."""
        super().__init__(root)
        self.fatal = -1
        self._passing = passing
        self._count: Iterator[int] | None = None

    def begin(self) -> None:
        """Count from here on."""
        self._count = itertools.count()

    def operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        """Half of a fatal write happens, and nothing of any other fatal operation."""
        if self._count is None:
            return perform()
        number = next(self._count)
        self._passing(number)
        os.sched_yield()
        if number == self.fatal:
            if operation.name in WRITES:
                operation.data = operation.data[: len(operation.data) // 2]
                perform()
            signal.raise_signal(signal.SIGKILL)
        return perform()


def play_forked(
    root: str | os.PathLike[str],
    calls: Sequence[Callable[[], object]],
    legs: Sequence[Leg],
) -> Played:
    """What `Theatre.play` does, with a real process for each player; see `sequencer.direct`.

    The operations that come back carry what was asked for, and neither results nor errors.
    """
    return direct([_Process(root, call) for call in calls], legs)


@final
class _Process:
    """A player in a process of its own; a pipe passes the turn to and fro."""

    def __init__(self, root: str | os.PathLike[str], call: Callable[[], object]) -> None:
        self.operations: list[Operation] = []
        self.stop: Operation | None = None
        self.ended = False
        self.error: BaseException | None = None
        self._connection, theirs = multiprocessing.Pipe()
        self._pid = fork()
        if self._pid == 0:
            self._connection.close()
            _be_player(theirs, root, call)
        theirs.close()

    def turn(self, before: int | None) -> None:
        self._connection.send(_ON if before is None else before)
        self._listen()

    def dismiss(self) -> None:
        if not self._pid:
            return
        while not self.ended:
            self._connection.send(_DISMISS)
            self._listen()
        os.waitpid(self._pid, 0)
        self._pid = 0
        self._connection.close()

    def _listen(self) -> None:
        if not self._connection.poll(PATIENCE):
            os.kill(self._pid, signal.SIGKILL)
            self.ended = True
            raise StuckError(f"process {self._pid} has not come back for {PATIENCE:g} s")
        seen, stop, ended, error = self._connection.recv()
        self.operations.extend(_operation(*facts) for facts in seen)
        self.stop = None if stop is None else _operation(*stop)
        self.ended, self.error = ended, error


_Facts = tuple[int, str, str, str, int]


def _facts(operation: Operation) -> _Facts:
    return operation.index, operation.name, operation.path, operation.target, operation.flags


def _operation(index: int, name: str, path: str, target: str, flags: int) -> Operation:
    made = Operation(name, path, target=target, flags=flags)
    made.index = index
    return made


def _be_player(
    connection: Connection, root: str | os.PathLike[str], call: Callable[[], object]
) -> None:
    """Everything that a player's process does; never returns."""
    try:
        die_with_parent()
        _Inside(connection, root).live(call)
    finally:
        os._exit(0)


@final
class _Inside(Paced):
    """A player as its own process sees it."""

    def __init__(self, connection: Connection, root: str | os.PathLike[str]) -> None:
        super().__init__()
        self._connection = connection
        self._sent = 0
        self._root = root

    def live(self, call: Callable[[], object]) -> None:
        error: BaseException | None = None
        self._listen()
        try:
            with _Eyes(self._root, self), waits_seen(lambda: self):
                call()
        except BaseException as raised:
            error = raised
        self._tell(None, ended=True, error=error)

    def give_back(self, stop: Operation | None) -> None:
        self._tell(stop, ended=False, error=None)
        self._listen()

    def _tell(self, stop: Operation | None, *, ended: bool, error: BaseException | None) -> None:
        fresh, self._sent = self.operations[self._sent :], len(self.operations)
        where = None if stop is None else _facts(stop)
        try:
            pickle.dumps(error)
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self._connection.send(([_facts(found) for found in fresh], where, ended, error))

    def _listen(self) -> None:
        before = self._connection.recv()
        if before == _DISMISS:
            raise DeadlockError("nobody can end this wait")
        self.before = None if before == _ON else before


@final
class _Eyes(Observer):
    def __init__(self, root: str | os.PathLike[str], player: _Inside) -> None:
        super().__init__(root)
        self._player = player

    def operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        return self._player.operate(operation, perform)
