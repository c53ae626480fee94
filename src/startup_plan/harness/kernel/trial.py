# SPDX-License-Identifier: Apache-2.0
"""A subject's save and look-up in front of the real kernel, with a fault at each system call."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from startup_plan.harness.contract.violation import NeverReachedError
from startup_plan.harness.operations.faults import recording
from startup_plan.harness.operations.save_trial import NEW, OLD
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.reader import Reader, Saved, plain_engine, save_plan

from .events import of_operations
from .strace import Fault, run_traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.operations.save_trial import SaveTrial
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

    from .events import Event
    from .held_child import Window
    from .strace import Traced
    from .trace import Call

READ_ERRORS: Final = ("EIO", "EACCES", "ESTALE", "ENOENT", "EMFILE")
"""The errors of LOAD-06, by name."""


@final
class Blow(NamedTuple):
    """A run that a fault has hit.

    Attributes:
        call: the system call that it hit.
        label: what it was, for a story.
        raised: what the subject raised, or how its process ended, "" if all was well.
        applied: what a look-up has applied; None for a save.
    """

    call: Call
    label: str
    raised: str
    applied: Any


@final
class KernelSave:
    """A save that is made in a process of its own, without anything between it and the kernel.

    Args:
        trial: prepares the disk, and judges it.

    Attributes:
        trial: the trial.
        clean: a save without a fault.
    """

    def __init__(self, trial: SaveTrial) -> None:
        """Save once, to see the system calls.

        Raises:
            NeverReachedError: that does not go well.
        """
        self.trial = trial
        trial.put_back()
        self.clean = run_traced(self._save, trial.root)
        if complaint := _complaint(self.clean):
            raise NeverReachedError(f"a save that goes well without any fault: it {complaint}")
        if not self.clean.calls or trial.is_unchanged:
            raise NeverReachedError("a save, without any fault, that stores a plan")

    def failed(self, error: str, calls: slice) -> Iterator[Blow]:
        """Save with each of some system calls failing in turn."""
        for number, call in list(enumerate(self.clean.calls, 1))[calls]:
            what = f"{call.name} of {self._describe(call)} (call {number})"
            yield self._hit(Fault(call, error), f"{error} of {what}")

    def killed(self) -> Iterator[Blow]:
        """Save and be killed at the first system call, then at the second, and after the last."""
        for number, call in enumerate(self.clean.calls, 1):
            what = f"{call.name} of {self._describe(call)} (call {number})"
            yield self._hit(Fault(call, ""), f"killed at {what}")
        if self.clean.end is not None:
            yield self._hit(Fault(self.clean.end, ""), "killed after its last call")

    def recorded(self) -> Traced:
        """Save once without a fault, seen by strace and by the recorder of `faults`.

        The value is what the recorder noted, in the language of `events`.
        """
        self.trial.put_back()
        return run_traced(self._save_recorded, self.trial.root)

    def _hit(self, fault: Fault, label: str) -> Blow:
        self.trial.put_back()
        traced = run_traced(self._save, self.trial.root, fault)
        return Blow(fault.at, label, _complaint(traced), None)

    def _save(self, window: Window) -> str:
        """Boot to the save; give what the subject raised, "" if nothing."""
        return raised_by(self.trial.save_unseen(window))

    def _save_recorded(self, window: Window) -> list[Event]:
        trial, trace = self.trial, recording(self.trial.root)

        @contextlib.contextmanager
        def seen() -> Iterator[None]:
            with window, trace:
                yield

        trial.save(seen(), again=False)
        return of_operations(trace.operations)

    def _describe(self, call: Call) -> str:
        named = [self.trial._what(path) for path in call.paths if path.startswith(self.trial.root)]
        return " to ".join(named)


@final
class KernelLoad:
    """A look-up that is made in a process of its own, of a plan that is whole and in place.

    Args:
        world: an entered world in which nothing has happened.

    Attributes:
        world: the world.
        saved: the plan.
        clean: a look-up without a fault.
    """

    def __init__(self, world: World) -> None:
        """Save a plan and look it up once, to see the system calls.

        Raises:
            NeverReachedError: that does not go well.
        """
        self.world = world
        self.engine = plain_engine()
        self.saved: Saved = save_plan(world, self.engine)
        self.clean = run_traced(self._look, world.cache_root)
        if complaint := _complaint(self.clean):
            raise NeverReachedError(f"a look-up that goes well without any fault: it {complaint}")
        if self.clean.value != ("", self.saved.kv_bytes) or not self.clean.calls:
            raise NeverReachedError("a look-up, without any fault, that applies a plan")

    def failed(self, error: str) -> Iterator[Blow]:
        """Look it up with the first system call failing, then with the second, and so on."""
        for number, call in enumerate(self.clean.calls, 1):
            yield self._hit(Fault(call, error), f"{error} of {call.name} (call {number})")

    def killed(self) -> Iterator[Blow]:
        """Look it up and be killed at the first system call, then at the second, and so on."""
        for number, call in enumerate(self.clean.calls, 1):
            yield self._hit(Fault(call, ""), f"killed at {call.name} (call {number})")

    def next_boot(self) -> BootResult:
        """Boot once more, in good health."""
        return self.world.boot(self.engine)

    def _hit(self, fault: Fault, label: str) -> Blow:
        traced = run_traced(self._look, self.world.cache_root, fault)
        applied = traced.value[1] if traced.value else None
        return Blow(fault.at, label, _complaint(traced), applied)

    def _look(self, window: Window) -> tuple[str, Any]:
        """Look the plan up; give what the subject raised, and what it applied."""
        with Reader(self.world, self.engine) as reader:
            reading = reader.look(window)
        raised = reading.raised
        return f"{type(raised).__name__}: {raised}" if raised is not None else "", reading.applied


def raised_by(result: BootResult) -> str:
    """What the subject raised out of a boot, "" if nothing."""
    return f"{type(result.raised).__name__}: {result.raised}" if result.raised is not None else ""


def _complaint(traced: Traced) -> str:
    """What a window came to that it never may, as the end of a clause, "" if nothing."""
    if traced.hung:
        return "had not come back after half a minute"
    value = traced.value[0] if isinstance(traced.value, tuple) else traced.value
    raised = traced.raised or value or ""
    return f"raised {raised.splitlines()[0][:160]}" if raised else ""


def damage_of(trial: SaveTrial) -> str:
    """What is wrong with the plan after a save that a fault has hit, "" if nothing is."""
    unchanged = trial.is_unchanged
    before = OLD if trial.start_bytes is not None else None
    booted = trial.next_boot()
    if booted.raised is not None:
        return f"the next {booted}"
    if booted.applied == NEW and not unchanged:
        return ""
    if booted.applied != before:
        return f"the next boot applied {gib(booted.applied)} for {gib(before)}"
    return "" if unchanged else "the plan file is no longer what it was"
