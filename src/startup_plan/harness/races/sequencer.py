# SPDX-License-Identifier: Apache-2.0
"""Several players that act on one folder, one at a time, in an order that is laid down beforehand.

A *player* is a call that stands for a process, with every thread that works for it. A *leg* lets
one player go on until it is about to make its n-th operation, or to its end, while all others stand
still. So two savers can be stopped between any two operations, without a sleep, and the same order
comes out every time.

    with Theatre(folder) as stage:
        played = stage.play([first, second], [Leg(0, 3), Leg(1, 5), Leg(0), Leg(1)])

A player that waits for another, by a lock on a file or by sleeping, gives its turn back instead of
waiting; it tries again at its next turn. A wait that nobody can end is noted as a deadlock.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar, final

from startup_plan.harness.operations.interposer import (
    Observer,
    UnknownOperationError,
    mark_injected,
)
from startup_plan.harness.world.patience import CLOCKS, clock_ahead

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from startup_plan.harness.operations.operation import Operation

    Result = TypeVar("Result")

PATIENCE: Final = 30.0
"""Seconds after which a player that does not come back is taken for stuck."""

_MOST_TURNS: Final = 200
"""A player that has given back its turn this often without an end waits for ever."""

_NAP: Final = 0.1
"""Seconds that a sleep takes at least, or a patience of seconds would take too many turns."""


class StuckError(RuntimeError):
    """A player waits in a way that cannot be seen; nothing is known about this order."""


class DeadlockError(BaseException):
    """Ends a player that waits for ever."""


class Leg(NamedTuple):
    """One turn of a player.

    Attributes:
        player: which, from 0.
        before: it stops before its operation of this number, counted from 1; None lets it go on to
            its end. A player that is already there, or has ended, does nothing.
    """

    player: int
    before: int | None = None


class Player(Protocol):
    """What the director of a play needs of a player, be it a thread or a process.

    Attributes:
        operations: everything that it has asked for, in order.
        stop: the operation before which it stands, None if it stands elsewhere.
        ended: whether it has come to its end.
        error: what it raised, or None.
    """

    operations: list[Operation]
    stop: Operation | None
    ended: bool
    error: BaseException | None

    def turn(self, before: int | None) -> None:
        """Go on as a leg says, and come back.

        Raises:
            StuckError: it did not come back.
        """

    def dismiss(self) -> None:
        """End it wherever it stands."""


@final
class Played:
    """What came of one order.

    Attributes:
        players: in the order of their numbers.
        order: (player, operation) of everything that was asked for, in the order of events.
        stops: for each leg, the operation before which its player stood afterwards, or None.
        deadlocked: whether somebody waited for ever.
    """

    __slots__ = ("deadlocked", "order", "players", "stops")

    def __init__(self, players: Sequence[Player]) -> None:
        """Nothing has happened yet."""
        self.players = tuple(players)
        self.order: list[tuple[int, Operation]] = []
        self.stops: list[Operation | None] = []
        self.deadlocked = False

    @property
    def errors(self) -> tuple[BaseException | None, ...]:
        """What each player raised."""
        return tuple(player.error for player in self.players)


def direct(
    players: Sequence[Player],
    legs: Sequence[Leg],
    before_turn: Callable[[int], object] | None = None,
    after_leg: Callable[[int], object] | None = None,
) -> Played:
    """Let players act as `legs` say, and then, one after the other, to their ends.

    Args:
        players: not begun yet.
        legs: the order.
        before_turn: called with the number of a player each time that it gets its turn.
        after_leg: called with the number of each leg of `legs` that is over, while all stand still.

    Raises:
        StuckError: a player did not come back.
        UnknownOperationError: a player did what cannot be followed.
    """
    played = Played(players)

    def turn(number: int, before: int | None) -> None:
        player = players[number]
        if player.ended:
            played.stops.append(None)
            return
        if before_turn is not None:
            before_turn(number)
        known = len(player.operations)
        player.turn(before)
        played.order.extend((number, found) for found in player.operations[known:])
        played.stops.append(player.stop)

    try:
        for number, leg in enumerate(legs):
            turn(leg.player, leg.before)
            if after_leg is not None:
                after_leg(number)
        for _ in range(_MOST_TURNS):
            left = [number for number, player in enumerate(players) if not player.ended]
            for number in left:
                turn(number, None)
            if not left:
                break
        else:
            played.deadlocked = True
    finally:
        for player in players:
            player.dismiss()
        del played.stops[len(legs) :]
    for error in played.errors:
        if isinstance(error, UnknownOperationError):
            raise error
    return played


def nested(first: Sequence[int], second: Sequence[int]) -> Iterator[tuple[Leg, ...]]:
    """Every order in which player 0 stops once, player 1 stops once, 0 ends, and then 1 ends.

    Args:
        first: numbers of the operations before which player 0 stops.
        second: those before which player 1 stops; its end is always tried as well.
    """
    for one, other in itertools.product(first, (*second, None)):
        yield (Leg(0, one), Leg(1, other), Leg(0), Leg(1))


@final
class Theatre(Observer):
    """A folder on which threads play. To be entered before the code of the players is executed.

    Args:
        root: the folder; operations elsewhere are free.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """A stage on which nobody plays yet."""
        super().__init__(root)
        self._acting: _Thread | None = None
        self._director: int | None = None
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Begin to see operations and waits."""
        super().__enter__()
        self._exit.enter_context(waits_seen(self._player))
        return self

    def __exit__(self, *raised: object) -> None:
        """See no more."""
        self._exit.close()
        super().__exit__(*raised)

    def play(
        self,
        calls: Sequence[Callable[[], object]],
        legs: Sequence[Leg],
        *,
        before_turn: Callable[[int], object] | None = None,
        after_leg: Callable[[int], object] | None = None,
    ) -> Played:
        """Let `calls` act on the folder as `legs` say; see `direct`."""
        self._director = threading.get_ident()
        try:
            players = [_Thread(call, n, self._act) for n, call in enumerate(calls)]
            return direct(players, legs, before_turn, after_leg)
        finally:
            self._director = None

    def operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        """Stand still before the operation if the leg says so; who is no player just acts."""
        player = self._player()
        return perform() if player is None else player.operate(operation, perform)

    def is_acting(self, number: int) -> bool:
        """Whether it is the player of this number that acts in this thread."""
        player = self._player()
        return player is not None and player.number == number

    def _act(self, player: _Thread | None) -> None:
        self._acting = player

    def _player(self) -> _Thread | None:
        """Who acts here: one at a time has a turn, and every thread but the director's is his."""
        return None if threading.get_ident() == self._director else self._acting


class Paced:
    """The part of a player that runs inside it: counts its operations and stands still in time.

    Attributes:
        operations: see `Player`.
        stop: see `Player`.
        slept: seconds that it has slept, by its own clock.
    """

    def __init__(self) -> None:
        """A player that has not begun."""
        self.operations: list[Operation] = []
        self.stop: Operation | None = None
        self.before: int | None = None
        self.slept = 0.0
        self._one_thread = threading.Lock()

    def operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        """Carry the operation out at its time; threads of one player wait for each other."""
        with self._one_thread:
            return self._operate(operation, perform)

    def _operate(self, operation: Operation, perform: Callable[[], Result]) -> Result:
        operation.index = len(self.operations) + 1
        while self.before is not None and operation.index >= self.before:
            self.give_back(operation)
        self.operations.append(operation)
        try:
            result = perform()
        except BaseException as error:
            operation.error = error
            raise
        operation.result = result
        return result

    def give_back(self, stop: Operation | None) -> None:
        """Stand before `stop`, or in a wait, until the next turn."""
        raise NotImplementedError


@final
class _Thread(Paced):
    """A player in a thread of this process; two locks pass the turn to and fro."""

    def __init__(
        self, call: Callable[[], object], number: int, act: Callable[[_Thread | None], None]
    ) -> None:
        super().__init__()
        self.number = number
        self.ended = False
        self._act = act
        self.error: BaseException | None = None
        self._dismissed = self._stuck = False
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._live, args=(call,), daemon=True)

    def turn(self, before: int | None) -> None:
        self.before, self.stop = before, None
        self._act(self)
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        if not self._back.acquire(timeout=PATIENCE):
            self._stuck = True
            last = self.operations[-1] if self.operations else "its begin"
            raise StuckError(f"a player has not come back for {PATIENCE:g} s, after {last}")
        self._act(None)

    def dismiss(self) -> None:
        self._dismissed = True
        if self._stuck or self._thread.ident is None:
            return
        while not self.ended:
            self.turn(None)
        self._thread.join(PATIENCE)

    def give_back(self, stop: Operation | None) -> None:
        if self._dismissed:
            raise mark_injected(DeadlockError("nobody can end this wait"))
        self.stop = stop
        self._back.release()
        self._go.acquire()
        if self._dismissed:
            raise mark_injected(DeadlockError("nobody can end this wait"))

    def _live(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self._back.release()


@contextlib.contextmanager
def waits_seen(player_here: Callable[[], Paced | None]) -> Iterator[None]:
    """Let players give back their turn where they would wait for a lock on a file, or sleep.

    Sleeping takes no time but on the player's own clocks, so that patience comes to its end.

    Locks of `lockf` belong to a process, which players in threads are not, so that a player takes
    them as `flock` would.

    Args:
        player_here: the player that calls, None if it is somebody else, who waits as ever.
    """

    def lock_of(real: Callable[..., None]) -> Callable[..., None]:
        def lock(fd: Any, operation: int, *rest: Any) -> None:
            player = player_here()
            if player is None or operation & (fcntl.LOCK_NB | fcntl.LOCK_UN):
                return real(fd, operation, *rest)
            while True:
                try:
                    return _flock(fd, operation | fcntl.LOCK_NB)
                except BlockingIOError:
                    player.give_back(None)

        return lock

    def sleep(seconds: float) -> None:
        player = player_here()
        if player is None:
            _sleep(seconds)
        else:
            player.slept += max(seconds, _NAP)
            player.give_back(None)

    def slept() -> float:
        player = player_here()
        return 0.0 if player is None else player.slept

    with contextlib.ExitStack() as back:
        for module, name, ours in (
            (fcntl, "flock", lock_of(fcntl.flock)),
            (fcntl, "lockf", lock_of(_flock)),
            (time, "sleep", sleep),
            *((time, name, clock_ahead(getattr(time, name), slept)) for name in CLOCKS),
        ):
            back.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, ours)
        yield


_flock: Final = fcntl.flock
_sleep: Final = time.sleep
