# SPDX-License-Identifier: Apache-2.0
"""The scenarios of a card on simulated devices: no line of them waits for hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.cards.crowd_scenarios import MADE_UP
from startup_plan.harness.cards.simulated import SimulatedCard
from startup_plan.harness.session.card_figures import keep
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB, MIB

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally, WorldFactory

CARDS: Final = {"8-GiB": (8 * GIB, 1), "141-GiB": (141 * GIB, 2 * MIB)}
"""The smallest card and the largest; one shows a boundary to the byte, one has steps."""


@pytest.mark.parametrize("size", CARDS)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.requirement(*s.ids)) for n, s in MADE_UP.items()]
)
def test_on_simulated_devices(
    name: str,
    size: str,
    world_factory: WorldFactory,
    tally: Tally,
    request: pytest.FixtureRequest,
) -> None:
    """What a scenario must not show, it shows neither on a small card nor on a large one."""
    total, granule = CARDS[size]
    devices = [Device(total=total), Device(total=total // 2 * 3)]
    card = SimulatedCard(world_factory(devices), granule)
    try:
        MADE_UP[name].run(card)
    finally:
        tally(boots=card.boots, examples=1)
        keep(request.node, card, name)
