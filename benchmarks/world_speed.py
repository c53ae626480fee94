# SPDX-License-Identifier: Apache-2.0
"""How many simulated boots a second and core the world does: plain boots, and the state machines.

    python benchmarks/world_speed.py [SUBJECT]

The machines are the ones of the suite, run in one process on one core under the `ci` profile; the
time is processor time, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World
from startup_plan.support.scratch import fastest_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


def plain_boots(name: str, seconds: float = 3.0) -> dict[str, float]:
    """Boots a second that apply a plan, and that measure and save one."""
    subject = load_subject(name)
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=fastest_folder()) as root, World(subject, root) as world:
        engine = Engine()
        world.boot(engine)
        for kind in ("apply", "save"):
            start, boots = time.process_time(), 0
            while time.process_time() - start < seconds:
                if kind == "save":
                    for plan in world.plans():
                        os.unlink(plan)
                world.boot(engine)
                world.story.clear()
                boots += 1
            rates[f"{kind}_boots_per_second"] = round(boots / (time.process_time() - start))
    return rates


class Counter:
    """Adds up what the tests tallied."""

    def __init__(self) -> None:
        """Start from nothing."""
        self.boots = 0
        self.busy = 0.0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Time the call of each test in processor seconds, the worlds it boots included."""
        before, start = World.booted, time.process_time()
        yield
        self.busy += time.process_time() - start
        self.boots += World.booted - before


def machines(name: str) -> dict[str, float]:
    """Boots a second inside the state machines of the suite, Hypothesis included."""
    counter = Counter()
    arguments = ["-q", "-n0", "-p", "no:cacheprovider", "--subject", name, "-k", "machine or life"]
    status = pytest.main([*arguments, "tests/property"], plugins=[counter])
    if status:
        raise SystemExit(f"the machines did not pass (pytest status {status})")
    return {
        "machine_boots": counter.boots,
        "machine_seconds": round(counter.busy, 2),
        "machine_boots_per_second": round(counter.boots / counter.busy),
    }


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "reference"
    print(json.dumps(plain_boots(chosen) | machines(chosen), indent=2))
