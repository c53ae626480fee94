# SPDX-License-Identifier: Apache-2.0
"""BOOT over any history: boots, budgets, co-tenants, upgrades, relocations, damage and kills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness import profiles
from startup_plan.harness.life import live
from startup_plan.harness.life_judges import JUDGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.plugin_fixtures import Tally
    from startup_plan.harness.world import World


@pytest.mark.parametrize(
    "judged",
    [pytest.param(rule, id=rule, marks=pytest.mark.requirement(rule)) for rule in JUDGES],
)
def test_life(
    judged: str, world: World, fresh_folder: Callable[[], Path], tally: Tally
) -> None:
    """Whatever happens to an engine and its disk between boots, every boot keeps the rule."""
    histories = profiles.scaled({"BOOT": 40, "GATE": 25}[judged[:4]] * (3 if judged == "BOOT-07" else 1))
    try:
        live(world, fresh_folder, judged, histories=histories)
    finally:
        tally(boots=world.boots, examples=histories)
