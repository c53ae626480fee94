# SPDX-License-Identifier: Apache-2.0
"""BOOT-09: a boot that dies before it is ready takes no plan with it, and leaves none behind."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories.scenes import must_boot, tale
from startup_plan.harness.operations.faults import kill_at
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.deaths import APPLIED, DEATHS, Death, die
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("BOOT-09")

_TENANT: Final = "other"


class Change(NamedTuple):
    """What is different in the boot that dies, and put back after it.

    Attributes:
        what: the clause of a story.
        begin: makes it so.
        end: puts it back.
    """

    what: str
    begin: Callable[[World, Engine], object]
    end: Callable[[World, Engine], object]


def _hold(size: int) -> Callable[[World, Engine], object]:
    return lambda world, _: world.devices[0].tenants.update({_TENANT: size})


def _grow(size: int) -> Callable[[World, Engine], object]:
    return lambda _, engine: setattr(engine, "heavier_weights", size)


def _install(version: str) -> Callable[[World, Engine], object]:
    return lambda world, _: setattr(world.runtime, "vllm", version)


def _use(utilization: float) -> Callable[[World, Engine], object]:
    return lambda _, engine: engine.set(UTILIZATION, utilization)


NOTHING: Final = Change("nothing has changed", lambda *_: None, lambda *_: None)
CHANGES: Final = {
    "applied": NOTHING,
    "refused beside a co-tenant": Change("a co-tenant holds 2 GiB", _hold(2 * GIB), _hold(0)),
    "refused for its weights": Change("the weights are 1 GiB heavier", _grow(GIB), _grow(0)),
    "of another vLLM": Change("vLLM is upgraded", _install("0.34.0"), _install("0.33.0")),
    "of another budget": Change("the utilization is lowered", _use(0.5), _use(0.6)),
}
"""What the look-up of a boot makes of the older plan -> what has happened."""

CASES: Final = [
    pytest.param(change, how, id=f"{what}, {how}")
    for what, change in CHANGES.items()
    for how, death in DEATHS.items()
    # A boot that applies a plan estimates no graphs.
    if not (death.measures and change is NOTHING)
]


_USUAL: Final = "ran out of memory while it profiled"


def _engine() -> Engine:
    engine = Engine()
    engine.set(UTILIZATION, 0.6)
    return engine


class Older(NamedTuple):
    """What a healthy boot has left.

    Attributes:
        engine: the engine.
        plans: name of each plan -> its bytes; what else a subject keeps there is no plan.
        value: what the next boot applies, in bytes; None where there is no plan.
    """

    engine: Engine
    plans: dict[str, bytes]
    value: int | None


def _planned(world: World, engine: Engine) -> Older:
    """Boot until there is a plan that is applied."""
    must_boot(world, engine, "BOOT-09")
    value = must_boot(world, engine, "BOOT-09").applied
    if not value:
        pytest.skip("never reached: no plan is applied here anyway (BOOT-01)")
    return Older(engine, _plans(world), value)


def _plans(world: World) -> dict[str, bytes]:
    return {os.path.basename(path): Path(path).read_bytes() for path in world.plans()}


def _check_untouched(world: World, older: Older) -> None:
    """The plans are those that were there, and the next boot in good health finds them."""
    before, after = older.plans, _plans(world)
    fates = [
        f"{name} is gone" if name not in after else f"{name} was written"
        for name in sorted(before.keys() | after)
        if before.get(name) != after.get(name)
    ]
    if fates:
        raise Violation("BOOT-09", tale(world, ", ".join(fates)))
    last = must_boot(world, older.engine, "BOOT-09")
    if last.applied != older.value:
        raise Violation("BOOT-09", tale(world, "that is not what the last healthy boot had left"))


@contextlib.contextmanager
def _changed(world: World, engine: Engine, change: Change) -> Iterator[None]:
    change.begin(world, engine)
    world.tell(change.what)
    yield
    change.end(world, engine)


def _die(world: World, engine: Engine, how: str, death: Death) -> None:
    missed = die(world, engine, death)
    if missed:
        # A subject that applies where it should not is blamed for that elsewhere.
        pytest.skip(missed if missed == APPLIED else f"never reached: {missed}")
    world.tell(f"a boot {how}")


@pytest.mark.parametrize(("change", "how"), CASES)
def test_a_death_leaves_the_older_plan(
    world: World, tally: Tally, change: Change, how: str
) -> None:
    """Beside an older plan, whatever becomes of it, a death changes no plan and saves none."""
    if change is not NOTHING and how != _USUAL and not profiles.is_thorough():
        pytest.skip("a profile for the inner loop: one death beside a plan that is not applied")
    engine = _engine()
    older = _planned(world, engine)
    with _changed(world, engine, change):
        _die(world, engine, how, DEATHS[how])
    _check_untouched(world, older)
    tally(boots=world.boots + 1, examples=1)


def test_a_refused_admission_leaves_the_older_plan(world: World, tally: Tally) -> None:
    """A boot that ends at once, because less is free than its budget, leaves the plan."""
    engine = _engine()
    older = _planned(world, engine)
    with _changed(world, engine, Change("a co-tenant holds 40 GiB", _hold(40 * GIB), _hold(0))):
        world.boot(engine)
    _check_untouched(world, older)
    tally(boots=world.boots, examples=1)


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_without_a_plan_leaves_none(world: World, tally: Tally, how: str) -> None:
    """Where there was no plan, none is there after a death, and the next boot measures."""
    engine = _engine()
    _die(world, engine, how, DEATHS[how])
    _check_untouched(world, Older(engine, {}, None))
    tally(boots=world.boots + 1, examples=1)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_kill_within_the_look_up_leaves_the_older_plan(
    world: World, tally: Tally, change: Change
) -> None:
    """Wherever in its look-up a boot is killed, the plan stays as it was."""
    engine, root = _engine(), world.cache_root
    older, story = _planned(world, engine), list(world.story)
    for n in itertools.count(1):
        world.story[:] = story
        with _changed(world, engine, change), patched(root, world.subject):
            kill = kill_at(root, n)
            world.boot(engine, during_load=kill, until="looked-up")
        if not kill.fired:
            break
        world.tell(f"it was killed before operation {n} of its look-up, {kill.hit.name}")
        _check_untouched(world, older)
    tally(boots=world.boots, examples=n - 1)
