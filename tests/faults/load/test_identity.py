# SPDX-License-Identifier: Apache-2.0
"""A plan counts only under the key and the schema that it was saved for, whatever it is called."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation, reached
from startup_plan.harness.damage import schema_variants
from startup_plan.harness.damage.variants import Variant
from startup_plan.harness.world.reader import Reader, Saved, plain_engine, save_plan, shown
from startup_plan.harness.world.subject import other_schemas

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.subject import Schema
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("LOAD-03")


def _other_hash(_world: World, engine: Engine) -> None:
    engine.hash_override = "0ddba11000"


def _other_device(world: World, _engine: Engine) -> None:
    world.devices[0].name = "Simulated B300"


def _other_vllm(world: World, _engine: Engine) -> None:
    world.runtime.vllm = "0.34.0"


def _other_torch(world: World, _engine: Engine) -> None:
    world.runtime.torch = "2.14.0"


OTHERS: Final[dict[str, Callable[[World, Engine], None]]] = {
    "another configuration": _other_hash,
    "another device": _other_device,
    "another vLLM": _other_vllm,
    "another torch": _other_torch,
}

MOVES: Final[dict[str, Callable[[str, str], object]]] = {
    "copied": shutil.copyfile,
    "linked": os.link,
    "symbolically linked": os.symlink,
    "renamed": os.replace,
}


def _two_plans(world: World, change: Callable[[World, Engine], None]) -> tuple[Saved, Saved]:
    """A plan that was saved before a change, which is undone, and one from after it."""
    engine = plain_engine()
    mine = save_plan(world, engine)
    os.unlink(mine.path)
    device, runtime = world.devices[0], world.runtime
    before = device.name, runtime.vllm, runtime.torch
    change(world, engine)
    theirs = save_plan(world, engine)
    device.name, runtime.vllm, runtime.torch = before
    if theirs.path == mine.path:
        pytest.skip("both have one key here, which other requirements judge (KEY)")
    return mine, theirs


@pytest.mark.parametrize("other", OTHERS)
def test_a_plan_under_another_name_is_a_miss(world: World, tally: Tally, other: str) -> None:
    """A plan that was saved under another key is not applied where it was put."""
    mine, theirs = _two_plans(world, OTHERS[other])
    applied = []
    with Reader(world, plain_engine()) as reader:
        for move, put in MOVES.items():
            put(theirs.path, mine.path)
            reading = reader.look()
            if reading.applied is not None:
                applied.append(f"{move}, it gave {shown(reading.applied)}")
            os.unlink(mine.path)
    tally(boots=2)

    if applied:
        raise Violation(
            "LOAD-03",
            f"the plan of {other} was put under the name of this engine's plan, which applied it: "
            + "; ".join(applied),
        )


@pytest.mark.parametrize(("saved_as", "read_as"), [(1, 0), (0, 1), (2, 0)])
def test_a_plan_of_another_schema_is_a_miss(
    world: World, tally: Tally, saved_as: int, read_as: int
) -> None:
    """A plan that a program with another schema version saved is not applied by this one.

    Version 0 is the subject's own, whatever it is.
    """
    versions = _versions(world)
    there, here = (_saved_as(world, versions[number]) for number in (saved_as, read_as))
    reached(there != here, f"a plan or a key that depends on {world.subject.schema_name}")
    with open(here[0], "wb") as stream:
        stream.write(there[1])
    result = world.boot(plain_engine(), schema=versions[read_as])
    tally(boots=3)

    if result.applied is not None:
        raise Violation(
            "LOAD-03",
            f"a plan that was saved as schema {versions[saved_as]} lay where one of schema "
            f"{versions[read_as]} is looked for; schema {versions[read_as]} applied "
            f"{shown(result.applied)}",
        )


def test_what_only_equals_the_schema_is_a_miss(world: World, tally: Tally) -> None:
    """Where the schema version can be seen in the file, only its own spelling is that version."""
    own, other, _ = _versions(world)
    path, data = _saved_as(world, own)
    _, foreign = _saved_as(world, other)
    variants = list(schema_variants.respelled(data, own, foreign, other))
    if not variants:
        pytest.skip("no place in the file is seen to hold the schema version")
    tally(boots=2, byte_variants=len(variants))
    applied = []
    with Reader(world, plain_engine()) as reader:
        for variant in (Variant("", data), *variants):
            with open(path, "wb") as stream:
                stream.write(variant.data)
            if reader.look().applied is not None:
                applied.append(variant.name)
    reached(applied[:1] == [""], "a plan that is applied as it was saved")

    if applied[1:]:
        raise Violation(
            "LOAD-03", f"a plan of schema {own} was applied all the same: {', '.join(applied[1:])}"
        )


def _versions(world: World) -> tuple[Schema, Schema, Schema]:
    """The subject's own schema version, and two others."""
    own = world.subject.schema
    if own is None:
        pytest.skip("the subject has no plan schema version that could be another")
    return (own, *other_schemas(own))


def _saved_as(world: World, schema: Schema) -> tuple[str, bytes]:
    """Where a program of a schema version saves, and what; nothing lies there afterwards."""
    result = world.boot(plain_engine(), schema=schema)
    plans = world.plans()
    if result.raised is not None or len(plans) != 1:
        raise NeverReachedError(f"a plan of schema {schema}: {result}")
    with open(plans[0], "rb") as stream:
        data = stream.read()
    os.unlink(plans[0])
    return plans[0], data
