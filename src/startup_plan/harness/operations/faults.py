# SPDX-License-Identifier: Apache-2.0
"""Faults at single operations of a subject's save or look-up, and traces of them.

Each function here makes a context manager for `World.boot(during_save=...)` or `during_load`:

    with patched(folder):                       # see interpose.patched: one process
        fault = fail_at(folder, 3, errno.EIO)
        world.boot(engine, during_save=fault)
    fault.fired, fault.operations

Operations are counted from 1, in the order in which the subject asks for them; reads and looks
(`stat`) count as well. To fail each in turn, go on until a run ends in which nothing has fired.
`recording` notes every operation, with its arguments, its bytes and what came of it, and changes
none.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, final

from startup_plan.harness.world.world import KilledError

from .interposer import Observer, descriptors, mark_injected
from .operation import WRITES, Operation
from .python_file import close_quietly

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = TypeVar("Result")
    Matching = Callable[[Operation], bool]

ERRORS: Final = (
    "EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EMFILE", "ENAMETOOLONG", "ESTALE", "EBUSY",
)  # fmt: skip
"""The errors of SAVE-01, by name. Not EINTR: Python itself goes on after that one (PEP 475)."""


class EndlessError(BaseException):
    """A subject went on asking for operations beyond any measure."""


class Trace(Observer):
    """What a subject did below a folder; the base of all faults, and itself without any.

    Args:
        root: the folder.

    Attributes:
        operations: every operation that was asked for, in order.
        fired: whether the fault was injected, at least once.
        hits: the operations at which it was.
    """

    endless = 5000
    """More operations than this are taken for a loop that does not end."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """A trace in which nothing has happened."""
        super().__init__(root)
        self.operations: list[Operation] = []
        self.hits: list[Operation] = []
        self._dead = False
        self._last_word: BaseException | None = None

    @property
    def fired(self) -> bool:
        """Whether the fault was injected."""
        return bool(self.hits)

    @property
    def is_endless(self) -> bool:
        """Whether the subject did not come to an end."""
        return len(self.operations) > self.endless

    @property
    def hit(self) -> Operation:
        """The first operation at which the fault was injected."""
        return self.hits[0]

    @final
    def operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        """Note the operation, and let the fault decide on it.

        Raises:
            KilledError: the process died at this operation or before it.
            EndlessError: the subject does not come to an end.
        """
        operation.index = len(self.operations) + 1
        self.operations.append(operation)
        if self.is_endless:
            self._last_word = EndlessError(f"{self.endless} operations, and no end")
            raise mark_injected(self._last_word)
        if self._dead:
            operation.error = self.die()
            raise operation.error
        try:
            operation.result = self.decide(operation, perform)
        except BaseException as error:
            operation.error = error
            raise
        return operation.result  # type: ignore[no-any-return]

    def decide(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        """Let it happen."""
        del operation
        return perform()

    def die(self) -> KilledError:
        """End the process: nothing it asks for from now on has an effect."""
        self._dead = True
        error = KilledError()
        mark_injected(error)
        self._last_word = error
        return error

    def __exit__(self, *raised: object) -> None:
        """See no more; the descriptors of a dead process are closed.

        Raises:
            KilledError: the process died in a thread of its own, which kept that to itself.
            EndlessError: likewise.
        """
        if self._dead:
            self.bury()
        super().__exit__(*raised)
        if self._last_word is not None and not any(isinstance(e, BaseException) for e in raised):
            raise self._last_word


recording: Final = Trace
"""A trace without a fault, for whoever makes one."""


@final
class _Fault(Trace):
    """A fault at the n-th operation that matches, and if it lasts at every later one."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        n: int,
        strike: Callable[[_Fault, Operation, Callable[[], Any]], Any],
        matching: Matching | None,
        *,
        persistent: bool = False,
    ) -> None:
        super().__init__(root)
        self._left = n
        self._strike = strike
        self._matching = matching
        self._persistent = persistent

    def decide(self, operation: Operation, perform: Callable[[], Any]) -> Any:
        if self._matching is not None and not self._matching(operation):
            return perform()
        self._left -= 1
        if self._left and not (self._persistent and self._left < 0):
            return perform()
        self.hits.append(operation)
        return self._strike(self, operation, perform)


def _let_go(operation: Operation, result: Any) -> None:
    """Give back what the caller will never hear of."""
    if operation.name == "open":
        descriptors.pop(result, None)
        close_quietly(result)
    elif operation.name == "scandir":
        result.close()


@final
class _ShortWrites(Trace):
    """Writes that take fewer bytes than they were given."""

    endless = 200_000  # a plan of 64 KiB, byte by byte, and room to spare

    def __init__(
        self,
        root: str | os.PathLike[str],
        taken: Callable[[int], int],
        times: int | None,
    ) -> None:
        super().__init__(root)
        self._taken = taken
        self._left = times

    def decide(self, operation: Operation, perform: Callable[[], Any]) -> Any:
        given = len(operation.data)
        if operation.name not in WRITES or not given or self._left == 0:
            return perform()
        kept = min(max(self._taken(given), 0), given)
        if kept == given:
            return perform()
        self.hits.append(operation)
        if self._left is not None:
            self._left -= 1
        if kept == 0:
            return 0
        operation.data = operation.data[:kept]
        return perform()


def fail_at(
    root: str | os.PathLike[str],
    n: int,
    error: int | str | type[BaseException],
    persistent: bool = False,
    matching: Matching | None = None,
    *,
    after_effect: bool = False,
) -> Trace:
    """Let the n-th operation below `root` fail.

    Args:
        root: the folder.
        n: which operation, from 1.
        error: an errno, its name, or an exception class (`MemoryError`, `KeyboardInterrupt`).
        persistent: whether every later operation fails as well.
        matching: count, and fail, only operations for which this is true.
        after_effect: let it happen first and report the error all the same.
    """
    code = getattr(errno, error) if isinstance(error, str) else error

    def strike(_: Trace, operation: Operation, perform: Callable[[], object]) -> Never:
        # Linux lets go of the descriptor even where close reports an error.
        if after_effect or operation.name == "close":
            _let_go(operation, perform())
        if isinstance(code, int):
            raise mark_injected(OSError(code, os.strerror(code), operation.path))
        raise mark_injected(code(f"injected at operation {operation.index}"))

    return _Fault(root, n, strike, matching, persistent=persistent)


def kill_at(root: str | os.PathLike[str], n: int, matching: Matching | None = None) -> Trace:
    """Let the process die just before its n-th operation below `root`, or the n-th that matches.

    That operation and every later one raise `KilledError` and have no effect, so that the dead
    process's own clean-up cannot touch the disk.
    """

    def strike(trace: Trace, *_: object) -> Never:
        raise trace.die()

    return _Fault(root, n, strike, matching)


def short_writes(
    root: str | os.PathLike[str], n: int | Callable[[int], int], times: int | None = None
) -> Trace:
    """Let writes below `root` take at most `n` bytes.

    Args:
        root: the folder.
        n: bytes, or a function from bytes given to bytes taken. A write that takes nothing
            returns 0, once unless `times` says otherwise: a caller may try for ever.
        times: how many writes are cut short; all of them if None.
    """
    if isinstance(n, int):
        most = n
        return _ShortWrites(root, lambda _: most, 1 if n == 0 and times is None else times)
    return _ShortWrites(root, n, times)


def intrude_at(
    root: str | os.PathLike[str],
    n: int,
    action: Callable[[Operation], None],
    matching: Matching | None = None,
) -> Trace:
    """Call `action` just before the n-th operation below `root`, or the n-th that matches.

    What `action` does to files is not part of this trace; a trace of its own, entered within it,
    sees that.
    """

    def strike(_: Trace, operation: Operation, perform: Callable[[], Result]) -> Result:
        action(operation)
        return perform()

    return _Fault(root, n, strike, matching)
