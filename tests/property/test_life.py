# SPDX-License-Identifier: Apache-2.0
"""BOOT over any history: boots, budgets, co-tenants, upgrades, relocations, damage and kills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.histories.judges import JUDGES
from startup_plan.harness.histories.life import live

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

HISTORIES: Final = {"BOOT-07": 120, "GATE-05": 25, "GATE-06": 25, "GATE-07": 25}
"""How many the `ci` profile tries, where that is not 40."""


@pytest.mark.parametrize(
    "judged",
    [pytest.param(rule, id=rule, marks=pytest.mark.requirement(rule)) for rule in JUDGES],
)
def test_life(judged: str, world: World, fresh_folder: Callable[[], Path], tally: Tally) -> None:
    """Whatever happens to an engine and its disk between boots, every boot keeps the rule."""
    histories = profiles.scaled(HISTORIES.get(judged, 40))
    live(world, fresh_folder, judged, histories=histories, count=tally)
