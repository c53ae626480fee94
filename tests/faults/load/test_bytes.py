# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to the bytes of a saved plan: no look-up raises, none applies another value.

A sweep costs far more than judging it, and shows both, so its outcome is kept for the second of two
tests where both run in one process.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.damage import json_variants, variants
from startup_plan.harness.damage.sweep import Sweep, sweep
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.reader import plain_engine, save_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

BOTH: Final = ("LOAD-01", "LOAD-02")

LIMITS: Final = {
    "truncations": 20_000,
    "bit flips": 40_000,
    "byte substitutions": 40_000,
    "numbers": 3_000,
    "tails": 3_000,
    "blocks": 2_000,
}
"""Up to so many variants, every one is tried; for bit flips that is a plan of 5000 bytes."""

SAMPLE: Final = 14_000
"""So many byte substitutions are tried of a plan that has more than its limit."""

PARTS: Final = {"bit flips": 3, "byte substitutions": 4}
"""Sweeps that are cut into parts, so that several processes can share them."""

_done: dict[tuple[str, str, int], Sweep] = {}


def scaled(limit: int) -> int:
    """`limit` for the profile in force; far less where the answer should come at once."""
    for_profile = profiles.scaled(limit)
    return for_profile if for_profile >= limit else for_profile // 20


def judge(
    requirement: str, kind: str, world: World, tally: Tally, run: Callable[[], Sweep]
) -> None:
    """Run a sweep, unless it is known what came of it, and raise what it found."""
    key = (world.subject.sha256, kind, scaled(1_000))
    if key not in _done:
        _done[key] = run()
    done = _done[key]
    # Once for the two tests that it serves, also where each of them had to make its own.
    if requirement == BOTH[0]:
        tally(byte_variants=done.tried)
    findings = done.raised if requirement == "LOAD-01" else done.unsaved
    if findings:
        raise Violation(requirement, done.story(findings))


def with_both(*cases: str) -> list[object]:
    """Parameters for each case and each of the two requirements, neighbours in that order."""
    return [
        pytest.param(case, id_, marks=pytest.mark.requirement(id_), id=f"{case}-{id_}")
        for case in cases
        for id_ in BOTH
    ]


SHARES: Final = [
    f"{kind}, part {part + 1} of {PARTS[kind]}" if kind in PARTS else kind
    for kind in variants.DAMAGE
    for part in range(PARTS.get(kind, 1))
]


@pytest.mark.parametrize(("share", "requirement"), with_both(*SHARES))
def test_damaged_bytes_do_no_harm(world: World, tally: Tally, share: str, requirement: str) -> None:
    """A plan cut short, with a bit or a byte changed, with another tail, with blocks lost."""
    kind, _, part = share.partition(", part ")
    damage, limit = variants.DAMAGE[kind], scaled(LIMITS[kind])

    def run() -> Sweep:
        engine = plain_engine()
        saved = save_plan(world, engine)
        whole = damage.is_exhaustive(saved.data, limit)
        variants = damage.variants(saved.data, limit if whole else min(limit, SAMPLE))
        if part:
            number, _, parts = part.partition(" of ")
            variants = itertools.islice(variants, int(number) - 1, None, int(parts))
        label = f"{share}, {'all' if whole else 'a sample'}"
        return sweep(world, engine, label, [saved], variants)

    judge(requirement, share, world, tally, run)


def _json(world: World, kind: str) -> Sweep:
    """A plan whose file is a JSON object, with other types, spellings, fields or encodings."""
    engine = plain_engine()
    saved = save_plan(world, engine)
    return sweep(world, engine, kind, [saved], json_variants.mutations(saved.data))


def _two_plans(world: World, kind: str) -> Sweep:
    """A mixture of two plans of one engine never gives the larger value at the lower baseline."""
    engine = plain_engine()
    ample = save_plan(world, engine)
    os.unlink(ample.path)
    world.devices[0].tenants["tenant"] = GIB
    scarce = save_plan(world, engine, ample.kv_bytes - GIB - 12_345)
    world.devices[0].tenants.clear()
    spliced = variants.splices(ample.data, scarce.data, scaled(2_000))
    return sweep(world, engine, kind, [ample, scarce], spliced)


def _two_engines(world: World, kind: str) -> Sweep:
    """A mixture with the plan of another engine never gives anything but one's own value."""
    engine, other = plain_engine(), plain_engine("the other engine")
    other.hash_override = "0ddba11000"
    mine = save_plan(world, engine)
    os.unlink(mine.path)
    theirs = save_plan(world, other, mine.kv_bytes + 54_321)
    if theirs.path == mine.path:
        pytest.skip("two engines share a key here, and so a plan (KEY-01)")
    spliced = variants.splices(mine.data, theirs.data, scaled(2_000))
    return sweep(world, engine, kind, [mine], spliced)


MIXTURES: Final = {
    "JSON": _json,
    "splices of two plans": _two_plans,
    "splices with another engine's plan": _two_engines,
}


@pytest.mark.parametrize(("kind", "requirement"), with_both(*MIXTURES))
def test_what_resembles_a_plan_does_no_harm(
    world: World, tally: Tally, kind: str, requirement: str
) -> None:
    """JSON that no save wrote, and plans put together from two, of one engine or of two."""
    judge(requirement, kind, world, tally, lambda: MIXTURES[kind](world, kind))
