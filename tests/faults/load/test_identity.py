# SPDX-License-Identifier: Apache-2.0
"""A plan counts only under the key and the schema that it was saved for, whatever it is called."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation
from startup_plan.harness.damage import json_variants
from startup_plan.harness.world.reader import Reader, Saved, plain_engine, save_plan, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.engine import Engine
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


@pytest.mark.parametrize(("saved_as", "read_as"), [(2, 1), (1, 2), (0, 1)])
def test_a_plan_of_another_schema_is_a_miss(
    world: World, tally: Tally, saved_as: int, read_as: int
) -> None:
    """A plan that a program with another schema version saved is not applied by this one."""
    if not world.subject.set_schema(world.subject.fresh(), 1):
        pytest.skip("the subject has no PLAN_SCHEMA_VERSION that could be another")
    engine = plain_engine()
    places = {}
    for schema in {saved_as, read_as}:
        result = world.boot(engine, schema=schema)
        if result.raised is not None or len(world.plans()) != 1:
            raise NeverReachedError(f"a plan of schema {schema}: {result}")
        places[schema] = world.plans()[0]
        os.replace(places[schema], f"{world.cache_root}/schema{schema}")
    os.replace(f"{world.cache_root}/schema{saved_as}", places[read_as])
    result = world.boot(engine, schema=read_as)
    tally(boots=3)

    if result.applied is not None:
        raise Violation(
            "LOAD-03",
            f"a plan that was saved as schema {saved_as} lay where one of schema {read_as} is "
            f"looked for; schema {read_as} applied {shown(result.applied)}",
        )


def test_a_schema_that_only_equals_one_is_a_miss(world: World, tally: Tally) -> None:
    """Where the file is JSON with a field `schema`, only the integer 1 is schema 1."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    variants = list(json_variants.schema_swaps(saved.data))
    if not variants:
        pytest.skip("the plan is no JSON object with a field `schema`")
    tally(byte_variants=len(variants))
    applied = []
    with Reader(world, engine) as reader:
        for variant in variants:
            with open(saved.path, "wb") as stream:
                stream.write(variant.data)
            if reader.look().applied is not None:
                applied.append(variant.name)

    if applied:
        raise Violation("LOAD-03", f"{saved}; applied all the same: {', '.join(applied)}")
