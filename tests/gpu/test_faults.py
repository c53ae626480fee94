# SPDX-License-Identifier: Apache-2.0
"""Both sides: what is seeded is caught on every card, and without a gate memory runs out.

Faults are judged here, not the subject, so that no requirement is tied to these tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.cards.crowd_scenarios import ALL
from startup_plan.harness.cards.simulated import SimulatedCard
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo.catalogue import load_catalogue, read_entry
from startup_plan.harness.zoo.seed import write_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.cards.processes import RunScenario

NAME: Final = "lowered beside a co-tenant"


@pytest.fixture
def gate_ignored(fresh_folder: Callable[[], Path]) -> str:
    """The file of a subject without a gate."""
    entry = read_entry(Path(__file__).with_name("gate_ignored.toml"))
    return str(write_subject(entry, fresh_folder()))


def test_without_a_gate_on_a_simulated_device(
    fresh_folder: Callable[[], Path], gate_ignored: str
) -> None:
    """An engine that ignores the gate is handed memory that the simulated device does not have."""
    devices = [Device(total=80 * GIB)]
    with (
        World(load_subject(gate_ignored), fresh_folder(), devices) as world,
        pytest.raises(Violation) as caught,
    ):
        ALL[NAME].run(SimulatedCard(world, 2 * MIB))

    assert (caught.value.requirement, "simulated out of memory" in caught.value.story) == (
        "BOOT-07",
        True,
    )


def test_without_a_gate_on_a_made_up_device(on_host: RunScenario, gate_ignored: str) -> None:
    """A real process that ignores the gate is refused memory beside a real co-tenant."""
    with pytest.raises(Violation) as caught:
        on_host(f"{NAME}, gate ignored", ALL[NAME], gate_ignored)

    assert (caught.value.requirement, "out of memory:" in caught.value.story) == ("BOOT-07", True)


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_without_a_gate_on_a_cuda_device(on_cuda: RunScenario, gate_ignored: str) -> None:
    """On a real card an engine that ignores the gate ends in `torch.OutOfMemoryError`."""
    with pytest.raises(Violation) as caught:
        on_cuda(f"{NAME}, gate ignored", ALL[NAME], gate_ignored)

    assert (caught.value.requirement, "torch.OutOfMemoryError" in caught.value.story) == (
        "BOOT-07",
        True,
    )


SEEDED: Final = {
    "applied_plan_profiles_twice": ("same card", "BOOT-02"),
    "refused_plan_removed": ("dying while booting", "BOOT-09"),
    "shortfall_tolerated": ("the boundary", "GATE-01"),
    "utilization_left_out": ("0.8, 0.35, 0.8", "BOOT-06"),
    "weights_ignored": ("heavier weights", "GATE-08"),
}
"""Fault of the zoo -> the scenario that catches it between real processes, and by what."""

each_fault = pytest.mark.parametrize("slug", SEEDED)


def _verdict(run: RunScenario, slug: str, folder: Path) -> str:
    """By what a fault is caught."""
    subject = write_subject(load_catalogue()[slug], folder)
    name, _ = SEEDED[slug]
    with pytest.raises(Violation) as caught:
        run(f"{name}, {slug}", ALL[name], str(subject))
    return str(caught.value.requirement)


@each_fault
def test_fault_is_caught_on_a_made_up_device(
    on_host: RunScenario, slug: str, fresh_folder: Callable[[], Path]
) -> None:
    """Real processes on a made-up device catch a seeded fault by the requirement that it breaks."""
    assert _verdict(on_host, slug, fresh_folder()) == SEEDED[slug][1]


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@each_fault
def test_fault_is_caught_on_a_cuda_device(
    on_cuda: RunScenario, slug: str, fresh_folder: Callable[[], Path]
) -> None:
    """So does a real card."""
    assert _verdict(on_cuda, slug, fresh_folder()) == SEEDED[slug][1]
