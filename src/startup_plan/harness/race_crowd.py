# SPDX-License-Identifier: Apache-2.0
"""Many processes that save and read one plan at the same time, some of which are killed.

Every process is real and a fork of this one, so that the kernel decides who acts when. What is laid
down is how much each of them does, which values each saves, and at which of its operations a doomed
one dies: these come from a seed. What is demanded holds in whatever order the kernel chooses.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from typing import TYPE_CHECKING, Final, NamedTuple, Self, final
from unittest import mock

from .boot import gib
from .race_child import Doom, run_together
from .races import A_NEIGHBOUR, LONG, OLD, ONE_PID, SHORT, SavingBoot
from .faults import recording
from .reader import Reader, plain_engine
from .violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .race_child import Ending
    from .world import World

SECONDS: Final = 60.0
"""Far more than a crowd needs; who has not ended by then has not been seen to end."""

_STEP: Final = 4096
_ROUNDS_APART: Final = 1000


class Size(NamedTuple):
    """How much a crowd does.

    Attributes:
        savers: processes that save.
        saves: saves of each.
        readers: processes that read.
        looks: look-ups of each.
        doomed: how many of the savers are killed in the midst of an operation.
    """

    savers: int = 16
    saves: int = 30
    readers: int = 8
    looks: int = 60
    doomed: int = 5


class Seen(NamedTuple):
    """What one process has seen.

    Attributes:
        rounds: how many saves or look-ups it has made.
        hits: how many of the look-ups applied a plan.
        trouble: the first thing that went wrong, as a clause of a story, or "".
    """

    rounds: int
    hits: int
    trouble: str


class Crowded(NamedTuple):
    """What came of a crowd.

    Attributes:
        rounds: saves and look-ups that were made by those that lived.
        kills: processes that were killed in the midst of an operation.
        hits: look-ups that applied a plan.
        trouble: what went wrong, as clauses of a story.
    """

    rounds: int
    kills: int
    hits: int
    trouble: tuple[str, ...]


@final
class Crowd:
    """Savers and readers of one plan. To be entered.

    Args:
        world: an entered world in which nothing has happened.
        size: how much they do.
        seed: decides who is killed, and when.
        over_old: whether an earlier plan lies there.
        same_pid: whether all savers have one process id, as in containers.

    Attributes:
        setting: what there is at the beginning, for a story.
    """

    def __init__(
        self, world: World, size: Size, *, seed: int, over_old: bool, same_pid: bool = False
    ) -> None:
        """A crowd that has not begun."""
        self._world = world
        self._size = size
        self._random = random.Random(seed)  # noqa: S311  # reproducible, not secret
        self._engine = plain_engine()
        self._root = os.path.dirname(world.cache_root)
        self._over_old = over_old
        self._same_pid = same_pid
        self._exit = contextlib.ExitStack()
        ids = "with one process id" if same_pid else "with a process id each"
        there = f"a plan of {gib(OLD)} is there" if over_old else "no plan is there"
        self.setting = (
            f"{there}; {size.savers} processes {ids} save {size.saves} times each, {size.doomed} of "
            f"them are killed (seed {seed}); {size.readers} read {size.looks} times each"
        )

    def __enter__(self) -> Self:
        """Boot everybody until it is about to save or read, and save the earlier plan.

        Raises:
            Violation: a single save cannot be read back.
        """
        world, device = self._world, self._world.devices[0]
        self._exit.callback(setattr, device, "tenants", device.tenants)
        self._exit.callback(setattr, world.subject, "_pristine", None)
        if self._same_pid:
            world.subject._pristine = None
            self._exit.enter_context(mock.patch.object(os, "getpid", lambda: ONE_PID[0]))
        self._reader = self._exit.enter_context(Reader(world, self._engine))
        try:
            self._begin()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put back the devices and the modules."""
        self._exit.close()

    def run(self) -> Crowded:
        """Let all of them act at once."""
        size = self._size
        doomed = self._random.sample(range(size.savers), size.doomed)
        # Not in the last third, so that others save after each death.
        last = max(1, self._operations * size.saves * 2 // 3)
        dooms = {number: self._random.randint(1, last) for number in doomed}
        works = [
            *(self._saver(number, dooms.get(number, 0)) for number in range(size.savers)),
            *([self._read] * size.readers),
        ]
        endings = run_together(works, seconds=SECONDS)
        return self._summary(endings, frozenset(dooms))

    def last_words(self) -> str:
        """What is wrong with what lies there at the end, "" if nothing is."""
        reading = self._reader.look()
        if reading.raised is not None or reading.applied not in self._legal():
            return f"after all of them had ended, {reading}"
        return ""

    def save_once_more(self) -> None:
        """Let one more boot save in peace."""
        self._saving(SHORT + 1)()

    def leftovers(self) -> list[str]:
        """Paths of everything in the plan folder but the plan, sorted."""
        folder = self._world.plan_folder
        return [os.path.join(folder, name) for name in self._world.files() if name != self._plan]

    def _begin(self) -> None:
        trace = recording(self._root)
        save = self._saving(OLD, neighbour=0)
        with trace:
            save()
        self._operations = max(1, len(trace.operations))
        found = self._reader.look()
        plans = self._world.plans()
        if found.applied != OLD or len(plans) != 1:
            raise Violation(None, f"one process alone saved {gib(OLD)}; then {found}")
        self._plan = os.path.basename(plans[0])
        if not self._over_old:
            os.unlink(plans[0])

    def _saving(self, value: int, neighbour: int = A_NEIGHBOUR) -> Callable[[], None]:
        boot = SavingBoot(self._world, self._engine, value, neighbour)
        boot.get_ready()
        return boot.save

    def _values(self, number: int) -> range:
        """The values that one saver saves; long and short ones take turns among savers."""
        first = (LONG if number % 2 else SHORT) + (number + 1) * _ROUNDS_APART * _STEP
        return range(first, first + self._size.saves * _STEP, _STEP)

    def _legal(self) -> frozenset[int | None]:
        values = itertools.chain.from_iterable(map(self._values, range(self._size.savers)))
        return frozenset((*values, OLD) if self._over_old else values)

    def _saver(self, number: int, doom: int) -> Callable[[], Seen]:
        """A saver as one call; `doom` is the operation in which it dies, 0 if it lives."""

        def work() -> Seen:
            made = 0
            with Doom(self._root, doom) if doom else contextlib.nullcontext():
                for save in [self._saving(value) for value in self._values(number)]:
                    try:
                        save()
                    except Exception as error:
                        return Seen(made, 0, f"a save raised {type(error).__name__}: {error}")
                    made += 1
            return Seen(made, 0, "")

        return work

    def _read(self) -> Seen:
        legal, hits, seen = self._legal(), 0, self._over_old
        for made in range(self._size.looks):
            reading = self._reader.look()
            if reading.raised is not None:
                return Seen(made, hits, str(reading))
            if reading.applied is None:
                if seen:
                    return Seen(made, hits, "a reader that had seen a plan found none")
            elif reading.applied not in legal:
                return Seen(made, hits, f"{reading}, which nobody saves")
            else:
                hits += 1
                seen = True
        return Seen(self._size.looks, hits, "")
