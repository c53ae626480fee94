# SPDX-License-Identifier: Apache-2.0
"""The scenarios with real processes: memory of the host, really taken, on a made-up device.

No requirement is tied to these tests, so that no gate waits for their processes; what they judge,
`test_simulated.py` judges in the gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.cards.crowd_scenarios import MADE_UP

if TYPE_CHECKING:
    from startup_plan.harness.cards.processes import RunScenario


@pytest.mark.parametrize("name", MADE_UP)
def test_on_a_made_up_device(name: str, on_host: RunScenario) -> None:
    """What a scenario must not show, it does not show between real processes."""
    card = on_host(name, MADE_UP[name])

    assert card.boots
