# SPDX-License-Identifier: Apache-2.0
"""BOOT: the worker's life, each sentence by the shortest history that can break it.

`test_life.py` judges the same sentences over any history.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories.judges import ESTIMATE, PROFILE
from startup_plan.harness.histories.scenes import SPOILERS, changed_settings, must_boot, spoil, tale
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

    Folders = Callable[[], Path]

LONG_AGO: Final = 1_000_000_000
"""A time in seconds that no file gets by being written now."""

# The fields of ParallelConfig would contradict how the world places the ranks.
MOVING: Final = [
    setting
    for setting in stub_configs.SETTINGS
    if setting.moves and setting.path != UTILIZATION and not setting.path.startswith("parallel_")
]


def _engine(utilization: float = 0.6) -> Engine:
    engine = Engine()
    engine.set(UTILIZATION, utilization)
    return engine


@pytest.mark.requirement("BOOT-01")
@settings(max_examples=profiles.scaled(60))
@given(
    utilization=st.sampled_from((0.6, 0.8, 0.9)),
    tenant=st.integers(0, 7 * GIB),
    setting=st.sampled_from([None, *MOVING]),
)
def test_the_next_boot_applies(
    world: World,
    fresh_folder: Folders,
    tally: Tally,
    utilization: float,
    tenant: int,
    setting: stub_configs.Setting | None,
) -> None:
    """What one boot saved, the next boot of the same engine, in a new process, applies."""
    world.again(fresh_folder())
    engine = _engine(utilization)
    world.devices[0].tenants["other"] = tenant
    if setting is not None:
        engine.set(setting.path, setting.alternates[0])
        world.tell(f"{setting.path} set to {setting.alternates[0]!r}")
    first = must_boot(world, engine, "BOOT-01")
    second = must_boot(world, engine, "BOOT-01")
    tally(boots=2, examples=1)

    if first.suggestion is not None and first.suggestion > 0 and not second.applied:
        raise Violation("BOOT-01", tale(world, "the second boot measured again"))


@pytest.mark.requirement("BOOT-02")
def test_applying_skips_the_measurement(world: World, tally: Tally) -> None:
    """A boot that applies runs the one profile run that compiles, and no estimate."""
    engine = _engine()
    must_boot(world, engine, "BOOT-02")
    second = must_boot(world, engine, "BOOT-02")
    tally(boots=2, examples=1)

    # Whether it applies is BOOT-01's matter.
    ran = (second.calls.count(PROFILE), second.calls.count(ESTIMATE))
    if second.applied and ran != (1, 0):
        raise Violation("BOOT-02", tale(world, f"it ran {', '.join(second.calls)}"))


@pytest.mark.requirement("BOOT-03")
@pytest.mark.parametrize("what", SPOILERS)
def test_not_applying_is_the_feature_off(world: World, tally: Tally, what: str) -> None:
    """A boot that applies no plan makes the calls and reaches the value of one without the flag."""
    engine = _engine()
    first = must_boot(world, engine, "BOOT-03")
    spoil(world, engine, what)
    second = world.boot(engine)
    engine.enabled = False
    world.tell("the same with the feature off")
    plain = must_boot(world, engine, "BOOT-03")
    tally(boots=3, examples=1)

    # Applying after all, or raising, breaks another sentence.
    refused = second.raised is None and second.applied != first.suggestion
    if refused and not plain.applied and (second.calls, second.kv) != (plain.calls, plain.kv):
        verdict = (
            f"with the feature off it ran {', '.join(plain.calls)} and reached {plain.kv} bytes, "
            f"with it on {', '.join(second.calls)} and {second.kv} bytes"
        )
        raise Violation("BOOT-03", tale(world, verdict))


@pytest.mark.requirement("BOOT-04")
def test_a_boot_that_applies_rewrites_nothing(world: World, tally: Tally) -> None:
    """Applying leaves every plan file as it was: bytes, time and inode; and makes no other."""
    engine = _engine()
    must_boot(world, engine, "BOOT-04")
    for path in world.plans():
        os.utime(path, (LONG_AGO, LONG_AGO))
    before = _contents(world)
    second = must_boot(world, engine, "BOOT-04")
    tally(boots=2, examples=1)
    after = _contents(world)

    if second.applied and after != before:
        changed = [name for name in after.keys() | before if after.get(name) != before.get(name)]
        verdict = f"{', '.join(sorted(changed))} changed although a plan was applied"
        raise Violation("BOOT-04", tale(world, verdict))


def _contents(world: World) -> dict[str, tuple[int, int, bytes]]:
    """Inode, time and bytes of everything in the plan folder."""
    found = {}
    for name in world.files():
        path = os.path.join(world.plan_folder, name)
        status = os.stat(path)
        with open(path, "rb") as stream:
            found[name] = (status.st_ino, status.st_mtime_ns, stream.read())
    return found


@pytest.mark.requirement("BOOT-05")
def test_applying_leaves_the_config_hash(world: World, tally: Tally) -> None:
    """Applying changes `kv_cache_memory_bytes` alone, and so no compile-cache key."""
    engine = _engine()
    world.watches_hash = True
    must_boot(world, engine, "BOOT-05")
    second = must_boot(world, engine, "BOOT-05")
    tally(boots=2, examples=1)

    before, after = second.hashes
    if second.applied and before != after:
        raise Violation("BOOT-05", tale(world, f"compute_hash() went from {before} to {after}"))
    changed = changed_settings(engine, second)
    if second.applied and changed:
        raise Violation("BOOT-05", tale(world, f"applying also changed {', '.join(changed)}"))


@pytest.mark.requirement("BOOT-06")
def test_a_lowered_budget_is_measured_anew(world: World, tally: Tally) -> None:
    """At a lower budget the boot profiles and stays within it; raised back, it applies again."""
    engine = _engine(0.9)
    first = must_boot(world, engine, "BOOT-06")
    again = must_boot(world, engine, "BOOT-06")
    engine.set(UTILIZATION, 0.5)
    world.tell("lowered to 0.5")
    lower = must_boot(world, engine, "BOOT-06")
    tally(boots=4, examples=1)

    if lower.applied or lower.needed > lower.budget:
        raise Violation("BOOT-06", tale(world, "the plan of the higher budget was applied"))
    engine.set(UTILIZATION, 0.9)
    world.tell("raised back to 0.9")
    back = must_boot(world, engine, "BOOT-06")

    # Where it is not used the next time either, BOOT-01 is broken.
    if again.applied == first.suggestion != back.applied:
        raise Violation("BOOT-06", tale(world, "the first plan was not used again"))
