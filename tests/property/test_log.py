# SPDX-License-Identifier: Apache-2.0
"""LOG: what an operator can see of a plan, in one line a boot and one line a save."""

from __future__ import annotations

import errno
import math
import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation, reached
from startup_plan.harness.histories.log_lines import listen, mentions, one_line, plain_engine
from startup_plan.harness.histories.scenes import must_boot, spoil, tale
from startup_plan.harness.operations.faults import fail_at
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.stubs.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("LOG-01")
def test_an_application_is_told(world: World, tally: Tally) -> None:
    """A boot that applies a plan says so in one line, with the value."""
    engine = plain_engine()
    must_boot(world, engine, "LOG-01")
    second, lines, _ = listen(world, engine)
    tally(boots=2, examples=1)
    if not second.applied:
        raise NeverReachedError("a plan that is applied")
    line = one_line("LOG-01", world, lines, "that a plan was applied")

    if not mentions(line, second.applied):
        raise Violation("LOG-01", tale(world, f"the line does not name the value: {line}"))


@pytest.mark.requirement("LOG-01")
def test_a_refusal_is_told_with_both_numbers(world: World, tally: Tally) -> None:
    """A boot with less free memory than the baseline names both in one line."""
    engine = plain_engine()
    first = must_boot(world, engine, "LOG-01")
    spoil(world, engine, "a co-tenant takes 2 GiB")
    second, lines, _ = listen(world, engine)
    tally(boots=2, examples=1)
    if second.applied or second.raised is not None:
        raise NeverReachedError("a plan that is refused")
    line = one_line("LOG-01", world, lines, "why the plan was refused")

    for what, number in (("free memory", second.free), ("recorded baseline", first.free)):
        if not mentions(line, number):
            raise Violation("LOG-01", tale(world, f"the line does not name the {what}: {line}"))


@pytest.mark.requirement("LOG-01")
@pytest.mark.parametrize("damage", [b"this is no plan", b""], ids=["garbage", "empty"])
def test_an_unreadable_plan_is_told_with_its_path(
    world: World, tally: Tally, damage: bytes
) -> None:
    """A boot that finds something else than a plan names the path in one line."""
    engine = plain_engine()
    must_boot(world, engine, "LOG-01")
    for path in world.plans():
        with open(path, "wb") as stream:
            stream.write(damage)
    world.tell(f"the plan file now holds {damage!r}")
    second, lines, _ = listen(world, engine)
    tally(boots=2, examples=1)
    if second.raised is not None:
        raise NeverReachedError(f"a look-up that comes back: {second}")
    line = one_line("LOG-01", world, lines, "that the plan is unreadable")

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
    engine = plain_engine()
    if QUIET[about] is not _nothing:
        must_boot(world, engine, "LOG-01")
    QUIET[about](world, engine)
    second, lines, _ = listen(world, engine)
    tally(boots=world.boots, examples=1)

    # Raising is the matter of KEY-17 or LOAD-03, applying after all likewise.
    reached(second.raised is None and not second.applied, f"a boot that does without: {second}")
    one_line("LOG-01", world, lines, f"that {about}")


@pytest.mark.requirement("LOG-02")
def test_a_save_is_told_with_its_place(world: World, tally: Tally) -> None:
    """A save says in one line where the plan is: by its path or its key."""
    result, _, lines = listen(world, plain_engine())
    tally(boots=1, examples=1)
    reached(result.raised is None, f"a save that comes back: {result}")  # else SAVE-01's matter
    _stored(world, one_line("LOG-02", world, lines, "whether and where the plan was saved"))


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
        result, _, lines = listen(world, plain_engine(), during_save=fault)
    tally(boots=1, examples=1)
    if result.raised is not None:
        raise NeverReachedError(f"a save that comes back: {result}")
    line = one_line("LOG-02", world, lines, "why the plan was not saved")

    named = (reason, errno.errorcode[code], "OSError", "PermissionError", f"[Errno {code}]")
    if not any(name.lower() in line.lower() for name in named):
        raise Violation("LOG-02", tale(world, f"the line does not give the reason: {line}"))


@pytest.mark.requirement("LOG-02")
@pytest.mark.parametrize("handed", [-5, 1.5, math.nan, 2**70, 40 * GIB], ids=repr)
def test_an_unstorable_value_is_told(world: World, tally: Tally, handed: float) -> None:
    """A save says in one line that it did not store a value, or where it did."""
    world.tell(f"{handed!r} is handed over for saving")
    result, _, lines = listen(world, plain_engine(), suggestion=handed)
    tally(boots=1, examples=1)
    if result.raised is not None:
        pytest.skip("the save raises, which is the matter of SAVE-01")
    line = one_line("LOG-02", world, lines, "what became of the value")

    if world.plans():
        _stored(world, line)
