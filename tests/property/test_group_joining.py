# SPDX-License-Identifier: Apache-2.0
"""GROUP-05, KEY-16: engines that grow while they serve (elastic expert parallelism)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.histories.group_scenes import Group, Shape, judge_together
from startup_plan.harness.histories.scenes import tale
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.outcome import words_of
from startup_plan.harness.world.together import boot_ranks

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

_JOINS: Final = "VLLM_ELASTIC_EP_SCALE_UP_LAUNCH"
"""What vLLM sets in the processes of ranks that join (`v1/engine/utils.py`)."""


def _elastic(tensor: int = 1) -> Shape:
    return Shape(tensor=tensor, replicas=2, experts=True, elastic=True, shared=True)


def _found(founders: Group) -> None:
    """Boot twice: measure and save, and boot again; how they agree is for GROUP-01 to judge."""
    founders.boot()
    founders.boot()


def _join(world: World, shape: Shape, running: int, size: int) -> list[BootResult]:
    """Boot the replicas with which an engine of `running` replicas grows to `size`."""
    world.tell(f"the engine grows from {running} replicas to {size}, the running ones boot no more")
    grown = Group(world, shape, replicas=size)
    ranks = grown.ranks()
    for rank in ranks:
        rank.runs_already = rank.number < running * grown.each
        if not rank.runs_already:
            rank.engine.setenv(_JOINS, "1")
    return boot_ranks(world, ranks)


def _judge(world: World, joined: list[BootResult]) -> None:
    for result in joined:
        if result.hung:
            raise Violation("GROUP-05", tale(world, "ranks that run already do not answer a vote"))
        if result.raised is not None:
            raise Violation("GROUP-05", tale(world, f"it fails: {words_of(result.raised)}"))
        if result.applied is not None:
            verdict = f"it applied {gib(result.applied)}, made for another world size"
            raise Violation("GROUP-05", tale(world, verdict))


@pytest.mark.requirement("GROUP-05")
@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("size", [3, 4])
def test_a_rank_that_joins_waits_for_nobody(
    world: World, tally: Tally, tensor: int, size: int
) -> None:
    """Ranks that join boot to their end although the running ones take part in no vote."""
    founders = Group(world, _elastic(tensor))
    _found(founders)
    joined = _join(world, founders.shape, 2, size)
    tally(boots=2 * founders.size + len(joined), examples=1)

    _judge(world, joined)


@pytest.mark.requirement("GROUP-05")
def test_a_plan_of_another_world_size_is_none(world: World, tally: Tally) -> None:
    """A rank that left and joins an engine of another size does not apply what it saved before."""
    founders = Group(world, _elastic(), replicas=3)
    _found(founders)
    world.tell("the engine shrinks from 3 replicas to 2")
    joined = _join(world, founders.shape, 2, 4)
    tally(boots=2 * founders.size + len(joined), examples=1)

    _judge(world, joined)


@pytest.mark.requirement("KEY-16")
def test_growing_before_the_save_hides_no_plan(world: World, tally: Tally) -> None:
    """An engine that grows between look-up and save saves under the keys that it looked up."""
    founders = Group(world, _elastic())
    founders.boot()
    looked_up = set(world.plans())
    reached(looked_up, "an elastic engine that saves a plan")
    for path in looked_up:
        os.unlink(path)
    world.tell("the plans are removed, and the engine grows between the measurement and the save")
    for engine in founders.engines:
        # vLLM rewrites the size in place and captures again, which hands the measurement over.
        engine.rewrites = (("parallel_config.data_parallel_size", 3),)
    founders.boot()
    tally(boots=2 * founders.size, examples=1)
    others = sorted(map(os.path.basename, set(world.plans()) - looked_up))

    if others:
        verdict = f"it saved {', '.join(others)}, which no rank had looked up"
        raise Violation("KEY-16", tale(world, verdict))


@pytest.mark.requirement("GROUP-01")
def test_founders_of_an_elastic_engine_agree(world: World, tally: Tally) -> None:
    """The ranks with which an elastic engine starts apply together, or none does."""
    founders = Group(world, _elastic())
    founders.settle("GROUP-01")
    for path in world.plans()[:1]:
        os.unlink(path)
    world.tell("one plan is removed")
    results = founders.boot()
    tally(boots=3 * founders.size, examples=1)

    judge_together(world, results, "GROUP-01")
