# SPDX-License-Identifier: Apache-2.0
"""LOG: what an operator can see of a plan, in one line a boot and one line a save."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation, reached
from startup_plan.harness.histories.scenes import must_boot, spoil, tale
from startup_plan.harness.operations.faults import fail_at
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

SEEN: Final = ("info", "warning", "error", "exception", "critical")
"""Levels that an operator sees."""


def _engine(utilization: float = 0.6) -> Engine:
    engine = Engine()
    engine.set(UTILIZATION, utilization)
    return engine


def _listen(
    world: World, engine: Engine, **options: Any
) -> tuple[BootResult, list[str], list[str]]:
    """Boot, and give what an operator saw of the look-up and of the save."""
    looked_up = 0

    @contextlib.contextmanager
    def during_load() -> Iterator[None]:
        nonlocal looked_up
        try:
            yield
        finally:
            looked_up = len(world.simulation.log)

    result = world.boot(engine, during_load=during_load(), **options)
    return result, _seen(result.log[:looked_up]), _seen(result.log[looked_up:])


def _seen(log: list[tuple[str, str]]) -> list[str]:
    return [line for level, line in log if level in SEEN]


def _one_line(requirement: str, world: World, lines: list[str], about: str) -> str:
    """The one line that was said about something.

    Raises:
        Violation: nothing was said, or more than one line.
    """
    said = [part for line in lines for part in line.splitlines()]
    if not said:
        raise Violation(requirement, tale(world, f"no line says {about}"))
    if len(said) > 1:
        raise Violation(requirement, tale(world, f"{len(said)} lines say {about}: {said}"))
    return said[0]


def _mentions(line: str, number: int) -> bool:
    """Whether a number of bytes stands in a line: exact, or in GiB with two decimals or more."""
    plain = re.sub(r"(?<=\d)[,_](?=\d{3})", "", line)
    forms = (str(number), re.escape(f"{number / GIB:.2f}"))
    return any(re.search(rf"(?<![\d.]){form}", plain) for form in forms)


@pytest.mark.requirement("LOG-01")
def test_an_application_is_told(world: World, tally: Tally) -> None:
    """A boot that applies a plan says so in one line, with the value."""
    engine = _engine()
    must_boot(world, engine, "LOG-01")
    second, lines, _ = _listen(world, engine)
    tally(boots=2, examples=1)
    if not second.applied:
        raise NeverReachedError("a plan that is applied")
    line = _one_line("LOG-01", world, lines, "that a plan was applied")

    if not _mentions(line, second.applied):
        raise Violation("LOG-01", tale(world, f"the line does not name the value: {line}"))


@pytest.mark.requirement("LOG-01")
def test_a_refusal_is_told_with_both_numbers(world: World, tally: Tally) -> None:
    """A boot with less free memory than the baseline names both in one line."""
    engine = _engine()
    first = must_boot(world, engine, "LOG-01")
    spoil(world, engine, "a co-tenant takes 2 GiB")
    second, lines, _ = _listen(world, engine)
    tally(boots=2, examples=1)
    if second.applied or second.raised is not None:
        raise NeverReachedError("a plan that is refused")
    line = _one_line("LOG-01", world, lines, "why the plan was refused")

    for what, number in (("free memory", second.free), ("recorded baseline", first.free)):
        if not _mentions(line, number):
            raise Violation("LOG-01", tale(world, f"the line does not name the {what}: {line}"))


@pytest.mark.requirement("LOG-01")
@pytest.mark.parametrize("damage", [b"this is no plan", b""], ids=["garbage", "empty"])
def test_an_unreadable_plan_is_told_with_its_path(
    world: World, tally: Tally, damage: bytes
) -> None:
    """A boot that finds something else than a plan names the path in one line."""
    engine = _engine()
    must_boot(world, engine, "LOG-01")
    for path in world.plans():
        with open(path, "wb") as stream:
            stream.write(damage)
    world.tell(f"the plan file now holds {damage!r}")
    second, lines, _ = _listen(world, engine)
    tally(boots=2, examples=1)
    if second.raised is not None:
        raise NeverReachedError(f"a look-up that comes back: {second}")
    line = _one_line("LOG-01", world, lines, "that the plan is unreadable")

    if not any(path in line for path in world.plans()):
        raise Violation("LOG-01", tale(world, f"the line does not name the path: {line}"))


def _unknown_device(world: World, _: Engine) -> None:
    world.simulation.broken.add("device_name")


def _explicit(_: World, engine: Engine) -> None:
    engine.explicit = 2 * GIB


def _foreign(world: World, _: Engine) -> None:
    for path in world.plans():
        with open(path, "rb") as stream:
            data = stream.read()
        with open(path, "wb") as stream:
            stream.write(data.replace(_key_in(path), _key_in(path)[::-1]))


def _key_in(path: str) -> bytes:
    """The key that a plan file is named after."""
    name = os.path.basename(path)
    return name.removeprefix("startup_plan_").removesuffix(".json").encode()


def _grown(_: World, engine: Engine) -> None:
    engine.heavier_weights = GIB


def _nothing(_world: World, _engine: Engine) -> None:
    """A first boot."""


QUIET: Final[dict[str, Callable[[World, Engine], None]]] = {
    "no plan was found": _nothing,
    "the device cannot be identified": _unknown_device,
    "the value was set explicitly": _explicit,
    "the plan names another key": _foreign,
    "the weights have grown": _grown,
}
"""What a boot has to say -> how it comes about; what it says is left to the subject."""


@pytest.mark.requirement("LOG-01")
@pytest.mark.parametrize("about", QUIET)
def test_every_other_outcome_is_told(world: World, tally: Tally, about: str) -> None:
    """Whatever else became of the plan, the boot says it in one line."""
    engine = _engine()
    if QUIET[about] is not _nothing:
        must_boot(world, engine, "LOG-01")
    QUIET[about](world, engine)
    second, lines, _ = _listen(world, engine)
    tally(boots=world.boots, examples=1)

    # Raising is the matter of KEY-17 or LOAD-03, applying after all likewise.
    reached(second.raised is None and not second.applied, f"a boot that does without: {second}")
    _one_line("LOG-01", world, lines, f"that {about}")


@pytest.mark.requirement("LOG-02")
def test_a_save_is_told_with_its_place(world: World, tally: Tally) -> None:
    """A save says in one line where the plan is: by its path or its key."""
    result, _, lines = _listen(world, _engine())
    tally(boots=1, examples=1)
    reached(result.raised is None, f"a save that comes back: {result}")  # else SAVE-01's matter
    _stored(world, _one_line("LOG-02", world, lines, "whether and where the plan was saved"))


def _stored(world: World, line: str) -> None:
    """A line that tells of a save must say where."""
    if not any(_key_in(path).decode() in line for path in world.plans()):
        raise Violation("LOG-02", tale(world, f"the line names neither path nor key: {line}"))


@pytest.mark.requirement("LOG-02")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES], ids=["ENOSPC", "EACCES"])
def test_a_failed_save_is_told_with_its_reason(world: World, tally: Tally, code: int) -> None:
    """A save that the disk refuses says in one line what the system said."""
    root, reason = world.cache_root, os.strerror(code)
    world.tell(f"from now on every file operation fails: {reason}")
    with patched(root, world.subject):
        fault = fail_at(root, 1, code, persistent=True)
        result, _, lines = _listen(world, _engine(), during_save=fault)
    tally(boots=1, examples=1)
    if result.raised is not None:
        raise NeverReachedError(f"a save that comes back: {result}")
    line = _one_line("LOG-02", world, lines, "why the plan was not saved")

    named = (reason, errno.errorcode[code], "OSError", "PermissionError", f"[Errno {code}]")
    if not any(name.lower() in line.lower() for name in named):
        raise Violation("LOG-02", tale(world, f"the line does not give the reason: {line}"))


@pytest.mark.requirement("LOG-02")
@pytest.mark.parametrize("handed", [-5, 1.5, math.nan, 2**70], ids=repr)
def test_an_unstorable_value_is_told(world: World, tally: Tally, handed: float) -> None:
    """A save says in one line that it did not store a value, or where it did."""
    world.tell(f"{handed!r} is handed over for saving")
    result, _, lines = _listen(world, _engine(), suggestion=handed)
    tally(boots=1, examples=1)
    if result.raised is not None:
        raise NeverReachedError(f"a save that comes back: {result}")
    line = _one_line("LOG-02", world, lines, "what became of the value")

    if world.plans():
        _stored(world, line)
