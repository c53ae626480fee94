# SPDX-License-Identifier: Apache-2.0
"""The engine's own factors: config hash, budget, rank, world size, replica, schema."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import NeverReachedError, Violation, reached
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.harness.world.subject import other_schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_HASH: Final = "0123456789"
_SHARES: Final = st.integers(40_000_000, 99_000_000).map(lambda millionths: millionths / 1e8)


@pytest.mark.requirement("KEY-01")
def test_every_character_of_the_config_hash_moves_the_key(world: World, tally: Tally) -> None:
    """Two config hashes that differ in one character alone give two keys."""
    hashes = [_HASH, *(f"{_HASH[:i]}f{_HASH[i + 1 :]}" for i in range(len(_HASH)))]
    found = []
    for config_hash in hashes:
        engine = Engine()
        engine.hash_override = config_hash
        found.append((config_hash, keys.sure_key(world, engine)))
    tally(boots=len(hashes))
    same = keys.twins(found)

    if same is not None:
        first, second, key = same
        raise Violation(
            "KEY-01",
            f"compute_hash() is {first} at one boot and {second} at the next, "
            f"and both look for plan {key}",
        )


@pytest.mark.requirement("KEY-02")
def test_the_budget_moves_the_key(world: World, tally: Tally) -> None:
    """Two utilizations that give two budgets give two keys."""

    @settings(max_examples=profiles.scaled(40))
    @given(first=_SHARES, second=_SHARES)
    @example(first=0.8, second=0.4)
    @example(first=0.9, second=0.9000001)
    def judge(first: float, second: float) -> None:
        total = world.devices[0].total
        assume(math.ceil(total * first) != math.ceil(total * second))
        engines = Engine(), Engine()
        for engine, share in zip(engines, (first, second), strict=True):
            engine.set(UTILIZATION, share)
        found = [keys.sure_key(world, engine) for engine in engines]
        tally(boots=2, examples=1)
        if found[0] == found[1]:
            change = f"utilization changed from {first} to {second}, same plan {found[0]}"
            raise Violation("KEY-02", keys.reuse(world, engines[0], change, engines[1]))

    judge()


def _keys_of_ranks(
    world: World, ranks: Sequence[tuple[int, int]], tally: Tally
) -> list[tuple[str, str]]:
    found = []
    for rank, world_size in ranks:
        # All on one device, with one config hash: nothing but the two numbers differs.
        engine = Engine(placement=(0,) * world_size)
        engine.world_size = world_size
        engine.set("parallel_config.world_size", world_size)
        engine.hash_override = keys.SAME_HASH
        found.append((f"rank {rank} of {world_size}", keys.sure_key(world, engine, rank)))
    tally(boots=len(found))
    return found


@pytest.mark.requirement("KEY-07")
@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param([(rank, 16) for rank in range(16)], id="rank"),
        pytest.param([(0, world_size) for world_size in (1, 2, 3, 4, 8, 16, 32)], id="world-size"),
    ],
)
def test_rank_and_world_size_move_the_key_each_alone(
    world: World, tally: Tally, ranks: list[tuple[int, int]]
) -> None:
    """Two ranks of one group, and equal ranks of groups of two sizes, do not share a key."""
    same = keys.twins(_keys_of_ranks(keys.make_roomy(world), ranks, tally))

    if same is not None:
        first, second, key = same
        raise Violation(
            "KEY-07", f"{first} and {second} share plan {key}, though they do not take the same"
        )


def _replica(number: int, *, experts: bool, one_host: bool) -> Engine:
    engine = Engine(f"replica {number}", replica=number, replicas=4, placement=(number,))
    parallel = engine.config.parallel_config
    if not one_host:
        engine.placement = (0,)
        parallel.data_parallel_rank_local = 0
    if not experts:
        # vLLM turns each replica of a dense model into an engine of its own, whose index alone
        # still tells which one it is (v1/engine/core.py).
        parallel.is_moe_model = False
        parallel.data_parallel_size = 1
        parallel.data_parallel_rank = 0
    engine.hash_override = keys.SAME_HASH
    return engine


@pytest.mark.requirement("KEY-08")
@pytest.mark.parametrize("experts", [True, False], ids=["experts", "dense"])
@pytest.mark.parametrize("one_host", [True, False], ids=["one-host", "own-hosts"])
def test_replicas_do_not_share_a_key(
    world: World, tally: Tally, *, experts: bool, one_host: bool
) -> None:
    """Data-parallel replicas of equal rank and world size save under different keys."""
    world.devices.extend(Device() for _ in range(2))
    engines = [_replica(number, experts=experts, one_host=one_host) for number in range(4)]
    found = [(engine.name, keys.sure_key(world, engine)) for engine in engines]
    tally(boots=len(found))
    same = keys.twins(found)

    if same is not None:
        first, second, key = same
        room = {engine.name: gib(keys.look(world, engine)[1].measurable) for engine in engines}
        raise Violation(
            "KEY-08",
            f"{first} and {second} of a data-parallel engine, rank 0 of 1 each, share plan {key}; "
            f"measured alone, the first has room for {room[first]} and the second for "
            f"{room[second]}; the last to save decides for both",
        )


@pytest.mark.requirement("KEY-09")
def test_the_schema_version_moves_the_key(world: World, tally: Tally) -> None:
    """Processes of another plan schema version look for other plans."""
    own = world.subject.schema
    if own is None:
        raise NeverReachedError("a plan schema version in the subject that can be another")
    found: list[tuple[str, str]] = []
    plans: set[bytes] = set()
    for schema in (own, *other_schemas(own)):
        found.append((f"schema {schema}", keys.sure_key(world, Engine(), schema=schema)))
        plans.update(Path(path).read_bytes() for path in world.plans())
    tally(boots=len(found))
    same = keys.twins(found)

    if same is not None:
        reached(len(plans) > 1, f"a plan or a key that depends on {world.subject.schema_name}")
        first, second, key = same
        raise Violation("KEY-09", f"plans of {first} and of {second} share key {key}")
