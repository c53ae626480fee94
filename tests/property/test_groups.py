# SPDX-License-Identifier: Apache-2.0
"""GROUP: ranks of one engine that boot together, in process groups that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.histories.group_scenes import (
    FAILURES,
    MISSES,
    ODD,
    SHAPES,
    Group,
    Shape,
    boot_after,
    judge_together,
)
from startup_plan.harness.histories.scenes import tale

if TYPE_CHECKING:
    from collections.abc import Collection

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

each_shape = pytest.mark.parametrize("shape", SHAPES)


def _spare(shape: str, what: str, all_of_it: Collection[str]) -> None:
    """Try, in the inner loop, every trouble of one shape and one trouble of every shape."""
    first = shape == next(iter(SHAPES)) or what == next(iter(all_of_it))
    if not first and not profiles.is_thorough():
        pytest.skip("a profile for the inner loop: every trouble of one shape is enough")


@pytest.mark.requirement("GROUP-01")
@pytest.mark.parametrize("what", MISSES)
@each_shape
def test_all_apply_or_none(world: World, tally: Tally, shape: str, what: str) -> None:
    """With one rank's plan gone or refused, every rank profiles, and none waits for ever."""
    _spare(shape, what, MISSES)
    group = Group(world, SHAPES[shape])
    world.tell(shape)
    group.settle("GROUP-01")
    results = boot_after(group, what)
    tally(boots=3 * group.size, examples=1)

    judge_together(world, results, "GROUP-01")


@pytest.mark.requirement("BOOT-01")
@each_shape
def test_a_group_applies_what_it_saved(world: World, tally: Tally, shape: str) -> None:
    """Where every rank has its plan and may use it, the second boot of a group applies."""
    group = Group(world, SHAPES[shape])
    world.tell(shape)
    applied = group.settle("BOOT-01")
    tally(boots=2 * group.size, examples=1)

    if not applied:
        raise Violation("BOOT-01", tale(world, "the second boot measured again"))


@pytest.mark.requirement("GROUP-02")
@each_shape
def test_an_outvoted_rank_is_reset(world: World, tally: Tally, shape: str) -> None:
    """A rank that could have applied and was outvoted has no value left in its configuration."""
    group = Group(world, SHAPES[shape])
    world.tell(shape)
    reached(group.settle("GROUP-02"), "a rank that could have applied")
    results = boot_after(group, f"one byte less is free for rank {ODD}")
    tally(boots=3 * group.size, examples=1)
    outvoted = any(result.applied is None for result in results)
    reached(outvoted, "a rank that is refused its plan (GATE-01)")
    kept = [result for result in results if result.left is not None]

    if kept:
        raise Violation("GROUP-02", tale(world, f"rank {kept[0].rank} kept its value"))


@pytest.mark.requirement("GROUP-03")
@pytest.mark.parametrize("what", FAILURES)
@each_shape
def test_a_failed_look_up_votes(world: World, tally: Tally, shape: str, what: str) -> None:
    """A rank whose own look-up fails in any way takes part, so that nobody waits for it."""
    _spare(shape, what, FAILURES)
    group = Group(world, SHAPES[shape])
    world.tell(shape)
    group.settle("GROUP-03")
    results = boot_after(group, what)
    tally(boots=3 * group.size, examples=1)

    judge_together(world, results, "GROUP-03")


@pytest.mark.requirement("GROUP-01")
def test_an_explicit_value_needs_no_vote(world: World, tally: Tally) -> None:
    """Ranks that were given a value profile as with the feature off, and wait for nobody."""
    group = Group(world, Shape(tensor=2))
    for engine in group.engines:
        engine.explicit = 2**30
    results = group.boot()
    tally(boots=group.size, examples=1)

    judge_together(world, results, "GROUP-01")


@pytest.mark.requirement("GROUP-01")
def test_dense_replicas_wait_for_nobody(world: World, tally: Tally) -> None:
    """Replicas of a dense model are engines of their own: one that measures keeps none waiting."""
    group = Group(world, Shape(replicas=2))
    group.settle("GROUP-01")
    results = boot_after(group, f"one byte less is free for rank {ODD}")
    tally(boots=3 * group.size, examples=1)

    if any(result.hung or result.raised is not None for result in results):
        raise Violation("GROUP-01", tale(world, "replicas of a dense model wait for each other"))
