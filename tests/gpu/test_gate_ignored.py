# SPDX-License-Identifier: Apache-2.0
"""The gate is what prevents an out-of-memory error: without it, the same history ends in one.

The fault is judged here, not the subject, so that no requirement is tied to these tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.card_crowds import ALL
from startup_plan.harness.card_simulated import SimulatedCard
from startup_plan.harness.simulation import GIB, MIB, Device
from startup_plan.harness.subject import load_subject
from startup_plan.harness.violation import Violation
from startup_plan.harness.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.card_remote import RunScenario

NAME: Final = "lowered beside a co-tenant"
FAULT: Final = str(Path(__file__).with_name("gate_ignored.py"))


def test_on_a_simulated_device(fresh_folder: Callable[[], Path]) -> None:
    """An engine that ignores the gate is handed memory that the simulated device does not have."""
    devices = [Device(total=80 * GIB)]
    with (
        World(load_subject(FAULT), fresh_folder(), devices) as world,
        pytest.raises(Violation) as caught,
    ):
        ALL[NAME].run(SimulatedCard(world, 2 * MIB))

    assert (caught.value.requirement, "simulated out of memory" in caught.value.story) == (
        "BOOT-07",
        True,
    )


def test_on_a_made_up_device(on_host: RunScenario) -> None:
    """A real process that ignores the gate is refused memory beside a real co-tenant."""
    with pytest.raises(Violation) as caught:
        on_host(f"{NAME}, gate ignored", ALL[NAME], FAULT)

    assert (caught.value.requirement, "out of memory:" in caught.value.story) == ("BOOT-07", True)


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_on_a_cuda_device(on_cuda: RunScenario) -> None:
    """On a real card an engine that ignores the gate ends in `torch.OutOfMemoryError`."""
    with pytest.raises(Violation) as caught:
        on_cuda(f"{NAME}, gate ignored", ALL[NAME], FAULT)

    assert (caught.value.requirement, "torch.OutOfMemoryError" in caught.value.story) == (
        "BOOT-07",
        True,
    )
