# SPDX-License-Identifier: Apache-2.0
"""Many processes that save and read one plan at the same time, some of which are killed.

Every process is real and a fork of this one, so that the kernel decides who acts when. What is laid
down is how much each of them does, which values each saves, and at which of its operations a doomed
one dies: these come from a seed. What is demanded holds in whatever order the kernel chooses.

Somewhere in each of its saves, each time at another operation, a saver calls for a reader, and lets
it go first. So readers are there while saves are going on, however fast either is.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from typing import TYPE_CHECKING, Final, NamedTuple, Self, final
from unittest import mock

from startup_plan.harness.contract.violation import NeverReachedError
from startup_plan.harness.operations.faults import recording
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.reader import Reader, plain_engine

from .children import Jostled, run_together
from .two_savers import A_NEIGHBOUR, LONG, OLD, ONE_PID, SHORT, SavingBoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.world.world import World

    from .children import Ending

SECONDS: Final = 60.0
"""Far more than a crowd needs; who has not ended by then has not been seen to end."""

_STEP: Final = 4096
_ROUNDS_APART: Final = 1000


class Size(NamedTuple):
    """How much a crowd does.

    Attributes:
        savers: processes that save.
        saves: saves of each.
        readers: processes that read, as often as they are called for, and once at the end.
        doomed: how many of the savers are killed in the midst of an operation.
    """

    savers: int = 16
    saves: int = 30
    readers: int = 8
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
        killed = f", {size.doomed} of them are killed (seed {seed})" if size.doomed else ""
        readers = f"; {size.readers} read meanwhile" if size.readers else ""
        self.setting = (
            f"{there}; {size.savers} processes {ids} save {size.saves} times each{killed}{readers}"
        )

    def __enter__(self) -> Self:
        """Boot everybody until it is about to save or read, and save the earlier plan.

        Raises:
            NeverReachedError: a single save cannot be read back.
        """
        world, device = self._world, self._world.devices[0]
        self._exit.callback(setattr, device, "tenants", device.tenants)
        if self._same_pid:
            self._exit.enter_context(world.subject.apart())
            self._exit.enter_context(mock.patch.object(os, "getpid", return_value=ONE_PID[0]))
        self._reader = self._exit.enter_context(Reader(world, self._engine))
        with self._exit:
            self._begin()
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Put back the devices and the modules."""
        self._exit.close()

    def run(self) -> Crowded:
        """Let all of them act at once."""
        size = self._size
        doomed = self._random.sample(range(size.savers), size.doomed)
        # Not in the last third, so that others save after each death.
        last = self._operations * self._saves * 2 // 3
        dooms = {number: self._random.randint(0, last) for number in doomed}
        calls, caller = os.pipe()
        try:
            endings = run_together(
                [
                    *(self._saver(n, dooms.get(n, -1), caller) for n in range(size.savers)),
                    *([self._reading(calls, caller)] * size.readers),
                ],
                seconds=SECONDS,
                # Readers end with the last saver, which they notice once nobody else can call.
                when_ready=lambda: os.close(caller),
            )
        finally:
            os.close(calls)
        return self._summary(endings, frozenset(dooms))

    def last_words(self) -> str:
        """What is wrong with what lies there at the end, "" if nothing is."""
        reading = self._reader.look()
        if reading.raised is not None or reading.applied not in self._legal():
            return f"after all of them had ended, {reading}"
        return ""

    def save_once_more(self) -> None:
        """Let one more boot save in peace, with less memory free than all before it."""
        self._boot(SHORT + 1, 2 * A_NEIGHBOUR).save()

    def leftovers(self) -> list[str]:
        """Paths of everything in the plan folder that one save alone does not leave, sorted."""
        folder = self._world.plan_folder
        return [os.path.join(folder, n) for n in self._world.files() if n not in self._lasting]

    def _begin(self) -> None:
        boot = self._boot(OLD, neighbour=0)
        first, again = recording(self._root), recording(self._root)
        with first:
            boot.save()
        with again:
            boot.save()
        # A subject may refuse to save twice for one boot; then each saver saves once.
        self._operations = max(1, len((again if again.operations else first).operations))
        self._saves = self._size.saves if again.operations else 1
        found = self._reader.look()
        plans = self._world.plans()
        if found.applied != OLD or len(plans) != 1:
            raise NeverReachedError(f"a plan of one process alone, saved and applied; {found}")
        # A lock file that stays is neither a plan nor litter.
        self._lasting = frozenset(self._world.files())
        if not self._over_old:
            os.unlink(plans[0])

    def _boot(self, value: int, neighbour: int = A_NEIGHBOUR) -> SavingBoot:
        boot = SavingBoot(self._world, self._engine, value, neighbour)
        boot.get_ready()
        return boot

    def _values(self, number: int) -> range:
        """The values that one saver saves; long and short ones take turns among savers."""
        first = (LONG if number % 2 else SHORT) + (number + 1) * _ROUNDS_APART * _STEP
        return range(first, first + self._size.saves * _STEP, _STEP)

    def _legal(self) -> frozenset[int | None]:
        values = itertools.chain.from_iterable(map(self._values, range(self._size.savers)))
        return frozenset((*values, OLD) if self._over_old else values)

    def _saver(self, number: int, fatal: int, caller: int) -> Callable[[], Callable[[], Seen]]:
        """A saver that gets ready; it dies in its operation `fatal`, -1 if it lives."""

        def call(passed: int) -> None:
            if passed % (self._operations + 1) == number % self._operations:
                os.write(caller, b".")

        def get_ready() -> Callable[[], Seen]:
            # Its modules are executed within, so that all of their operations are seen.
            self._world.subject.forget()
            jostled = Jostled(self._root, call).__enter__()
            jostled.fatal = fatal
            boot = self._boot(OLD)

            def work() -> Seen:
                jostled.begin()
                for made, boot.value in enumerate(self._values(number)):
                    try:
                        boot.save()
                    except Exception as error:
                        return Seen(made, 0, f"a save raised {type(error).__name__}: {error}")
                return Seen(self._size.saves, 0, "")

            return work

        return get_ready

    def _reading(self, calls: int, caller: int) -> Callable[[], Callable[[], Seen]]:
        """A reader that gets ready."""
        legal = self._legal()

        def work() -> Seen:
            looks, hits, seen = 0, 0, self._over_old
            called = True
            while called:
                called = bool(os.read(calls, 1))
                reading = self._reader.look()
                looks += 1
                if reading.raised is not None:
                    return Seen(looks, hits, str(reading))
                if reading.applied is None and seen:
                    return Seen(looks, hits, "a reader found no plan where one had been before")
                if reading.applied is not None:
                    seen, hits = True, hits + 1
                    if reading.applied not in legal:
                        return Seen(looks, hits, f"{reading} to a reader, and nobody saves that")
            return Seen(looks, hits, "")

        def get_ready() -> Callable[[], Seen]:
            os.close(caller)
            self._reader.look()
            return work

        return get_ready

    def _summary(self, endings: list[Ending], doomed: frozenset[int]) -> Crowded:
        rounds = kills = hits = 0
        trouble = []
        for number, ending in enumerate(endings):
            who = f"saver {number}" if number < self._size.savers else f"a reader ({number})"
            if ending.hung:
                trouble.append(f"{who} had not ended after {SECONDS:g} s")
            elif ending.killed and number in doomed:
                kills += 1
            elif ending.killed or ending.error:
                how = f"ended by signal {ending.killed}" if ending.killed else ending.error
                trouble.append(f"{who}: {how}")
            else:
                rounds, hits = rounds + ending.value.rounds, hits + ending.value.hits
                if ending.value.trouble:
                    trouble.append(ending.value.trouble)
        return Crowded(rounds, kills, hits, tuple(trouble))
