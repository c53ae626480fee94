# SPDX-License-Identifier: Apache-2.0
"""One save, over and over from the same disk, each time with another fault.

A `SaveTrial` boots an engine to a save and puts the disk back before each one. Beside the engine a
neighbour takes some of the device, so that a plan that was measured without it is refused and the
boot measures, and saves under the same key; without the neighbour, either plan can be applied. What
is on the disk afterwards is judged by the next boot, and by comparing files, never by their inside.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final
from unittest import mock

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import NeverReachedError, Violation
from startup_plan.harness.stubs.units import GIB, gib
from startup_plan.harness.world.engine import Engine

from .faults import ERRORS, EndlessError, Trace, fail_at, kill_at, recording
from .interposer import patched
from .operation import WRITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

    from .operation import Operation

OLD: Final = 21_474_836_480 + 4097
"""Bytes that the earlier plan holds."""

NEW: Final = 9_663_676_416 + 8191
"""Bytes that the save under trial is given; one digit less than `OLD`, so that a plan written over
the other leaves a tail."""

NEIGHBOUR: Final = 2 * GIB
"""Bytes that the neighbour takes while the save under trial is measured."""

OVER_AN_HOUR: Final = 3660
"""Seconds; a margin for clocks of files that are coarser than the clock of the process."""

_NAMES: Final = frozenset({"link", "rename", "replace"})
_CONTENTS: Final = WRITES | {"fdatasync", "fsync", "ftruncate", "truncate"}
_TENANT: Final = "neighbour"
_PATH: Final = re.compile(r"(?<!\w)/[^\s'\"]+")
_DIGITS: Final = re.compile(r"[0-9a-f]*\d[0-9a-f]*")


class Attempt(NamedTuple):
    """One save that a fault hit.

    Attributes:
        fault: the fault; it has fired.
        label: what it was, for a story.
        result: what came of the boot.
    """

    fault: Trace
    label: str
    result: BootResult


def make_old(paths: Iterable[str]) -> None:
    """Date what lies at these paths, links themselves included, over an hour back."""
    then = time.time() - OVER_AN_HOUR
    for path in filter(os.path.lexists, paths):
        os.utime(path, (then, then), follow_symlinks=False)


def errors() -> tuple[str, ...]:
    """Names of the errors to try: all of SAVE-01, or one where the profile asks for few examples.

    Which of them it is rarely matters to a subject, which operation it hits always does.
    """
    return ERRORS if profiles.is_thorough() else ERRORS[:1]


@final
class SaveTrial:
    """A save that can be repeated.

    Args:
        world: an entered world in which nothing has happened.
        over_old: whether an earlier plan, of `OLD` bytes, lies there when the save begins.
        engine: what boots; the usual engine if left out.

    Attributes:
        world: the world.
        root: the folder below which everything happens.
        engine: the engine that boots.
        plan: path of the plan.
        clean: the trace of a save without faults.
        published: index of its operation that put the new plan in place, 0 if none did.
        said: what the subject logged while it saved the last time, as (level, message).
        met: what the plan file held when the last save began, None if there was none.
    """

    def __init__(self, world: World, *, over_old: bool, engine: Engine | None = None) -> None:
        """Save once without any fault, to see how this subject does it.

        Raises:
            NeverReachedError: not even that leaves a plan, or can be seen.
        """
        self.world = world
        self.root = os.path.dirname(world.cache_root)
        self.engine = engine or Engine()
        self.plan = ""
        self.said: list[tuple[str, str]] = []
        self.met: bytes | None = None
        self._start: dict[str, tuple[int, bytes]] = {}
        self._folder_first = False
        first = self.save(value=OLD, neighbour=0)
        if not self.files():
            # A subject that cannot create folders (SAVE-08) is judged with them in place.
            self._folder_first = True
            first = self.save(value=OLD, neighbour=0)
        found = self.files()
        if first.raised is not None or not found:
            raise NeverReachedError(f"a save on a healthy disk that stores something: {first}")
        plans = world.plans()
        self.plan = plans[0] if plans else os.path.join(world.cache_root, min(found))
        self._lasting = frozenset(found)
        if over_old:
            self._start = found
        self._before = found[os.path.relpath(self.plan, world.cache_root)][1] if over_old else None
        self.clean = recording(self.root)
        self.outcome = self.save(self.clean)
        self.published = 0 if self.is_unchanged else self._find_publication()
        self._success = [_plain(message) for _, message in self.said]
        if not self.clean.operations:
            raise NeverReachedError("an operation of a save that can be seen")

    @property
    def setting(self) -> str:
        """What lies there when the save begins, for a story."""
        return f"a plan of {gib(OLD)} is there" if self._start else "no plan is there"

    @property
    def start_bytes(self) -> bytes | None:
        """The plan file as it was when the save began, None if there was none."""
        return self._before

    def save(
        self,
        fault: Trace | contextlib.AbstractContextManager[object] | None = None,
        *,
        value: object = NEW,
        neighbour: int = NEIGHBOUR,
        again: bool = True,
    ) -> BootResult:
        """Boot to the save of `value` bytes.

        Args:
            fault: what happens during the save; nothing, but that its operations are counted.
            value: handed over for saving.
            neighbour: bytes of the device that are taken by another process.
            again: whether the disk is put back first.

        Returns:
            What came of the boot; it never applies a plan.
        """
        if again:
            self.put_back()
        with self._beside(neighbour), patched(self.root, self.world.subject):
            return self.world.boot(
                self.engine, during_save=self._listening(fault), suggestion=value
            )

    def save_unseen(
        self, window: contextlib.AbstractContextManager[object] | None = None
    ) -> BootResult:
        """Boot to the save of `NEW`, onto the disk as it is, with nothing before the kernel.

        Args:
            window: entered around the subject's save.
        """
        # Executed anew, so that functions of `os` which it binds are those of this process.
        self.world.subject.forget()
        with self._beside(NEIGHBOUR):
            return self.world.boot(self.engine, during_save=window, suggestion=NEW)

    def failed(
        self, names: tuple[str, ...], *, persistent: bool = False, **options: Any
    ) -> Iterator[Attempt]:
        """Save with the first operation failing, then the second, until none is left to fail.

        Args:
            names: the errors to try.
            persistent: whether all later operations fail as well.
            options: as for `faults.fail_at`.
        """
        for name in names:
            until = " and of all that follow" if persistent else ""

            def fault(n: int, name: str = name) -> Trace:
                return fail_at(self.root, n, name, persistent=persistent, **options)

            yield from self.each(fault, f"{name} of {{}}{until}")

    def killed(self) -> Iterator[Attempt]:
        """Save and die before the first operation, then before the second, and so on."""
        yield from self.each(lambda n: kill_at(self.root, n), "killed before {}")

    def each(
        self, fault_at: Callable[[int], Trace], label: str, first: int = 1
    ) -> Iterator[Attempt]:
        """Save with a fault at one operation after the other, until none is reached.

        Args:
            fault_at: number of an operation -> the fault.
            label: what it is, with a place for the operation.
            first: number of the first operation.
        """
        for n in itertools.count(first):
            fault = fault_at(n)
            result = self.save(fault)
            if not fault.fired:
                return
            yield Attempt(fault, label.format(self.describe(fault.hit)), result)
            if fault.is_endless:
                # One such save is enough to judge, and each of them takes its time.
                return

    def next_boot(self, neighbour: int = 0) -> BootResult:
        """Boot once more, in good health, without the neighbour unless told otherwise."""
        with self._beside(neighbour):
            return self.world.boot(self.engine)

    def put_back(self) -> None:
        """Make the disk what it was before the save."""
        shutil.rmtree(self.world.cache_root, ignore_errors=True)
        if self._folder_first:
            os.makedirs(self.world.plan_folder)
        for name, (mode, data) in self._start.items():
            path = os.path.join(self.world.cache_root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(data)
            os.chmod(path, mode)

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Everything below the cache root but folders, as relative path -> (mode, contents)."""
        found = {}
        for folder, _, names in os.walk(self.world.cache_root):
            for name in names:
                path = os.path.join(folder, name)
                mode, data = 0, b""
                with contextlib.suppress(OSError):
                    mode = os.lstat(path).st_mode & 0o7777
                    with open(path, "rb") as stream:
                        data = stream.read()
                found[os.path.relpath(path, self.world.cache_root)] = (mode, data)
        return found

    def leftovers(self) -> list[str]:
        """Paths of what a save without faults would not have left, sorted."""
        names = sorted(self.files().keys() - self._lasting)
        return [os.path.join(self.world.cache_root, name) for name in names]

    def plan_bytes(self) -> bytes | None:
        """What the plan file holds, None if it cannot be read."""
        try:
            with open(self.plan, "rb") as stream:
                return stream.read()
        except OSError:
            return None

    @property
    def is_unchanged(self) -> bool:
        """Whether the plan file is byte for byte what it was before the save."""
        return self.plan_bytes() == self._before and not os.path.islink(self.plan)

    @property
    def has_changed_plan(self) -> bool:
        """Whether the plan file is not what the last save met, whatever the look-up had done."""
        return self.plan_bytes() != self.met

    @property
    def says_more_than_success(self) -> bool:
        """Whether the last save logged a line that a save without faults does not."""
        return any(_plain(message) not in self._success for _, message in self.said)

    def words_of_failure(self, error: str) -> frozenset[str]:
        """What this subject logs where a save fails: where its plan is kept from its place.

        Args:
            error: name of the error that keeps it.

        Returns:
            The lines that a save without faults does not log, without numbers and paths; none
            where the plan is in its place all the same.
        """
        self.save(fail_at(self.root, self.published, error))
        if not self.is_unchanged:
            return frozenset()
        return frozenset(self._told()) - {self.blot(line) for line in self._success}

    def told_of_failure(self, words: frozenset[str]) -> str:
        """The line of the last save that is among its words of failure, "" if none is."""
        return next((line for line in self._told() if line in words), "")

    def _told(self) -> list[str]:
        """What the last save logged, without numbers and paths."""
        return [self.blot(_plain(message)) for _, message in self.said]

    def blame(
        self, requirement: str, offenders: Sequence[str], tried: int, what: str = "faults"
    ) -> None:
        """Raise the first of the offenders, with some of the others; nothing where there is none.

        Args:
            requirement: what they broke.
            offenders: what came of a fault, as clauses of a story.
            tried: number of faults.
            what: how these are called.

        Raises:
            Violation: there is an offender.
        """
        if offenders:
            also = "".join(f"\nalso {offender}" for offender in offenders[1:4])
            more = f"\nand {len(offenders) - 4} more" if len(offenders) > 4 else ""
            raise Violation(
                requirement,
                f"{self.setting}, {gib(NEW)} are saved; {offenders[0]} "
                f"({len(offenders)} of {tried} {what}){also}{more}",
            )

    @staticmethod
    def blot(text: str) -> str:
        """`text` on one short line, without the paths of this run."""
        return _PATH.sub("(a path)", " ".join(text.split()))[:160]

    def brief(self, error: BaseException) -> str:
        """An exception in a few words that are the same in every run."""
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return self.blot(f"{type(error).__name__}: {said}")

    def describe(self, operation: Operation) -> str:
        """An operation in words that are the same in every run, whatever names it uses."""
        what = self._what(operation.path)
        if operation.target:
            what = f"{what} to {self._what(operation.target)}"
        return f"{operation.name} of {what} (operation {operation.index})"

    def _what(self, path: str) -> str:
        if path == self.plan:
            return "the plan"
        if path == self.root or self.world.cache_root.startswith(path):
            return "a folder above"
        if path == self.world.plan_folder:
            return "the plan folder"
        if os.path.relpath(path, self.world.cache_root) in self._lasting:
            return "another file"
        return "a temporary file"

    @property
    def lasting_names(self) -> frozenset[str]:
        """Names of the files, without their folders, that a save without faults leaves."""
        return frozenset(map(os.path.basename, self._lasting))

    def _find_publication(self) -> int:
        """The last operation that gave the plan its name, or else the last on what it holds."""
        done = [operation for operation in self.clean.operations if operation.error is None]
        named = [o.index for o in done if o.target == self.plan and o.name in _NAMES]
        written = [o.index for o in done if o.path == self.plan and o.name in _CONTENTS]
        return max(named or written or [0])

    @contextlib.contextmanager
    def _beside(self, neighbour: int) -> Iterator[None]:
        with mock.patch.dict(self.world.devices[0].tenants, {_TENANT: neighbour}):
            yield

    @contextlib.contextmanager
    def _listening(self, fault: contextlib.AbstractContextManager[object] | None) -> Iterator[None]:
        log = self.world.simulation.log
        already = len(log)
        self.met = self.plan_bytes()
        try:
            with fault or recording(self.root):
                yield
        except EndlessError as error:
            # An endless save is an endless boot: as bad as one that raises.
            raise TimeoutError(str(error)) from None
        finally:
            self.said = log[already:]


def _plain(message: str) -> str:
    return _DIGITS.sub("#", message)
