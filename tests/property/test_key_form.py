# SPDX-License-Identifier: Apache-2.0
"""What a key looks like, and where a plan is stored (KEY-15)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_KEY: Final = re.compile(r"[0-9a-f]{16}")
_FILE: Final = re.compile(r"startup_plan_[0-9a-f]{16}\.json")
_ENGINES: Final = 12


def _engines() -> list[Engine]:
    """Enough engines that a key with a missing leading zero or a capital letter would show."""
    engines = [Engine() for _ in range(_ENGINES)]
    for number, engine in enumerate(engines):
        engine.set(UTILIZATION, 0.5 + number / 100)
        engine.hash_override = f"{number:010x}"
    return engines


@pytest.mark.requirement("KEY-15")
def test_the_plan_has_its_place_and_name(world: World, tally: Tally) -> None:
    """A boot leaves one plan, `startup_plan/startup_plan_KEY.json` below the cache root."""
    home = world.cache_root
    for number, engine in enumerate(_engines()):
        world.cache_root = os.path.join(home, f"root {number % 3}")
        keys.clear(world)
        result = world.boot(engine)
        tally(boots=1)
        found = [
            os.path.relpath(os.path.join(folder, name), world.cache_root)
            for folder, _, files in os.walk(world.cache_root)
            for name in files
        ]
        plans = [path for path in found if _FILE.fullmatch(os.path.basename(path))]
        others = [path for path in found if path not in plans]
        # An empty lock file that stays, one for each plan at most, is no plan.
        locks = [p for p in others if not os.path.getsize(os.path.join(world.cache_root, p))]

        is_in_place = [os.path.dirname(path) for path in plans] == ["startup_plan"]
        if not is_in_place or others != locks[:1]:
            raise Violation(
                "KEY-15",
                f"{result}; below VLLM_CACHE_ROOT it left {found or 'nothing'}, not one "
                f"startup_plan/startup_plan_(16 lowercase hexadecimal characters).json",
            )


@pytest.mark.requirement("KEY-15")
def test_the_fingerprint_is_sixteen_hexadecimal_characters(world: World, tally: Tally) -> None:
    """`compute_plan_fingerprint(config, rank, world_size)` gives 16 of 0-9 and a-f, as a str."""
    if world.runtime.backend.device_type == "xla":
        pytest.skip("torch knows no device here, and this call is given no worker to ask")
    module = world.subject.fresh()
    for number, engine in enumerate(_engines()):
        key = module.compute_plan_fingerprint(engine.new_config(), number % 2, 2)
        tally(examples=1)

        if type(key) is not str or not _KEY.fullmatch(key):
            raise Violation("KEY-15", f"compute_plan_fingerprint(…, {number % 2}, 2) gave {key!r}")
