# SPDX-License-Identifier: Apache-2.0
"""Saves on a simulated disk that is full to the byte, or on which nothing may be written."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final, final

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation
from startup_plan.harness.operations.faults import EndlessError
from startup_plan.harness.operations.save_trial import NEIGHBOUR, NEW, OLD
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.fake_disk import fake_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyfakefs.fake_filesystem import FakeFilesystem

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.subject import Subject
    from startup_plan.harness.world.world import World

AMPLE: Final = 2**30
"""Bytes of a disk that is not full."""

PATIENCE: Final = 5.0
"""Seconds for a save that takes milliseconds."""

STEPS: Final = 12
"""Amounts of free space that are tried between none and enough."""


@final
class FakeDisk:
    """A world on a simulated disk, with a plan of `OLD` bytes on it."""

    def __init__(self, world: World) -> None:
        """Save the plan."""
        self.world = world
        # Within a fake world, `os` is pyfakefs's, which knows its disk.
        self.disk: FakeFilesystem = vars(os)["filesystem"]
        self.engine = Engine()
        self.disk.set_disk_usage(AMPLE)
        first = world.boot(self.engine, suggestion=OLD)
        if first.raised is not None or not world.plans():
            raise NeverReachedError(f"a plan on the simulated disk: {first}")
        self.plan = world.plans()[0]
        self.lasting = frozenset(world.files())
        self.old = self.read()

    def read(self) -> bytes:
        """The bytes of the plan, b"" if there are none."""
        try:
            with open(self.plan, "rb") as stream:
                return stream.read()
        except OSError:
            return b""

    def save(self) -> BootResult:
        """Boot to the save of `NEW` bytes over the plan that is there."""
        self.world.devices[0].tenants["neighbour"] = NEIGHBOUR
        try:
            return self.world.boot(self.engine, during_save=_in_time(), suggestion=NEW)
        finally:
            self.world.devices[0].tenants.clear()

    def leave(self, free: int) -> None:
        """Leave `free` bytes of space."""
        _, used, _ = self.disk.get_disk_usage()
        self.disk.set_disk_usage(used + free)
        _, _, now_free = self.disk.get_disk_usage()
        assert now_free == free

    def heal(self) -> None:
        """Give the disk its space back, and the old plan its path."""
        self.disk.set_disk_usage(AMPLE)
        for name in self.world.files():
            os.unlink(os.path.join(self.world.plan_folder, name))
        with open(self.plan, "wb") as stream:
            stream.write(self.old)


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """End a save that goes on for ever: on a simulated disk its operations cannot be counted."""

    def give_up(*_: object) -> None:
        raise EndlessError(f"no end within {PATIENCE:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    except EndlessError as error:
        raise TimeoutError(str(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.requirement("SAVE-01", "SAVE-02", "SAVE-03")
def test_a_disk_that_fills_up_costs_only_the_new_plan(subject: Subject, tally: Tally) -> None:
    """However little space is left, nothing is raised, the old plan stays, and no litter."""
    with fake_world(subject) as world:
        fake = FakeDisk(world)
        size = len(fake.old)
        for free in sorted({*range(0, size, max(1, size // STEPS)), 1, size - 1}):
            _fill(fake, free)
        tally(boots=fake.world.boots)


def _fill(fake: FakeDisk, free: int) -> None:
    """Save with `free` bytes of space, and judge."""
    fake.heal()
    fake.leave(free)
    result = fake.save()
    found, litter = fake.read(), set(fake.world.files()) - fake.lasting
    fake.disk.set_disk_usage(AMPLE)
    applied = fake.world.boot(fake.engine).applied
    head = f"{gib(OLD)} are stored, {free} bytes are left on the disk, {gib(NEW)} are saved"
    if result.raised is not None:
        raise Violation("SAVE-01", f"{head}; the save raised {type(result.raised).__name__}")
    if found != fake.old and applied != NEW:
        raise Violation("SAVE-02", f"{head}; the next boot applied {gib(applied)}")
    if litter:
        raise Violation("SAVE-03", f"{head}; {len(litter)} temporary file was left")


CLOSED: Final = {
    "the plan folder may only be read": ({"plan_folder"}, 0o555),
    "the whole cache root may only be read": ({"plan_folder", "cache_root"}, 0o555),
    "the plan folder may not even be entered": ({"plan_folder"}, 0o000),
}


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.requirement("SAVE-01", "SAVE-02")
def test_a_folder_that_may_not_be_written_costs_only_the_new_plan(
    subject: Subject, tally: Tally, closed: str
) -> None:
    """Where a user has no right to write, nothing is raised and the old plan stays."""
    folders, mode = CLOSED[closed]
    with fake_world(subject) as world:
        fake = FakeDisk(world)
        for name in sorted(folders, reverse=True):
            os.chmod(getattr(fake.world, name), mode)
        result = fake.save()
        for name in sorted(folders):
            os.chmod(getattr(fake.world, name), 0o700)
        found, old, applied = fake.read(), fake.old, fake.world.boot(fake.engine).applied
        tally(boots=fake.world.boots)

    head = f"{gib(OLD)} are stored, then {closed}"
    if result.raised is not None and result.where == "save":
        raise Violation(
            "SAVE-01", f"{head}; the save of {gib(NEW)} raised {type(result.raised).__name__}"
        )
    # A plan that is written in place needs no right to write to the folder.
    if found != old and applied != NEW:
        raise Violation("SAVE-02", f"{head}; after the save the next boot applied {gib(applied)}")
