# SPDX-License-Identifier: Apache-2.0
"""The scenarios of a card judged by subjects whose verdict is known: both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.cards.crowd_scenarios import ALL, MADE_UP
from startup_plan.harness.cards.memory import SimulatedMemory
from startup_plan.harness.cards.processes import HostCard
from startup_plan.harness.cards.simulated import SimulatedCard
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo.catalogue import load_catalogue
from startup_plan.harness.zoo.seed import REWRITE

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[3]
CATALOGUE: Final = load_catalogue()
COUNTED: Final = "what a look-up waits for is counted in a process of its own"
NUMBERED: Final = "every device of a card has one number, whoever counts"
APART: Final = "every engine of a card is a process"
ELSEWHERE: Final = {
    "capability_asked_by_local_rank": NUMBERED,
    "card_looked_up_in_the_variable": NUMBERED,
    "device_described_once": APART,
    "environment_read_once": APART,
    "look_up_in_a_global": APART,
    "platform_asked_by_index_of_torch": NUMBERED,
    "budget_of_the_whole_device": "what a real worker measures is never beyond its budget",
    "digest_of_this_process": "takes two processes; see below",
    "free_memory_asked_late": "applies nothing, which a scenario alone takes for its own matter",
    "garbage_read_again": COUNTED,
    "look_up_behind_a_lock": COUNTED,
    "look_up_behind_a_lock_file": COUNTED,
    "memory_waited_for": COUNTED,
    "plan_adapted_before_measuring": "no engine dies there beside heavier weights",
    "refusal_read_again": COUNTED,
    "saved_at_exit": "an engine that is no process has no exit",
    "value_through_float": "differs from 2**53 bytes on, and no card has so many",
}
"""Faults of the gate and of BOOT that do not show on a simulated card, and why."""

FAULTS: Final = [
    slug
    for slug, entry in CATALOGUE.items()
    if (entry.requirement or "").startswith(("GATE", "BOOT", "KEY-02", "KEY-04"))
    and slug not in ELSEWHERE
]


def verdicts(subject: str, fresh_folder: Callable[[], Path]) -> set[str]:
    """The requirements that a subject breaks in any scenario on a simulated card."""
    loaded, broken = load_subject(subject), set()
    for scenario in MADE_UP.values():
        devices = [Device(total=80 * GIB), Device(total=120 * GIB)]
        with World(loaded, fresh_folder(), devices) as world:
            try:
                scenario.run(SimulatedCard(world, 1))
            except Violation as violation:
                broken.add(str(violation.requirement))
                unmarked = {violation.requirement} - set(scenario.ids)
                if unmarked:
                    pytest.fail(f"{unmarked} is not among the ids of its scenario")
    return broken


@pytest.mark.parametrize("slug", FAULTS)
def test_fault_is_caught(
    slug: str, fresh_folder: Callable[[], Path], seeded: Callable[[str], str]
) -> None:
    """A fault of the gate or of BOOT is caught by what it names, or by a listed consequence."""
    fault = CATALOGUE[slug]
    broken = verdicts(seeded(slug), fresh_folder)
    expected = {str(fault.requirement), *fault.consequences}

    assert (bool(broken), broken - expected) == (True, set())


@pytest.mark.parametrize("subject", ["reference", str(REWRITE)], ids=["reference", "rewrite"])
def test_what_is_correct_raises_no_alarm(subject: str, fresh_folder: Callable[[], Path]) -> None:
    """Every scenario holds on the reference, and on a plan that it was not written for."""
    assert verdicts(subject, fresh_folder) == set()


def test_what_one_process_knows_is_caught_between_two(
    tmp_path: Path, seeded: Callable[[str], str]
) -> None:
    """A fault that shows only in another process is caught where boots are processes."""
    slug = "digest_of_this_process"
    with (
        HostCard(tmp_path, seeded(slug), ROOT / "tests" / "gpu") as card,
        pytest.raises(Violation) as caught,
    ):
        ALL["same card"].run(card)

    assert caught.value.requirement == CATALOGUE[slug].requirement


def test_faults_are_judged_by_the_command_too(seeded: Callable[[str], str]) -> None:
    """`pytest --subject FAULT tests/gpu` fails by the requirement that the fault names."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
        *(str(ROOT / "tests" / "gpu" / "test_simulated.py"), "-k", "boundary"),
        *("--subject", seeded("one_byte_short_accepted"), "-c", str(ROOT / "pyproject.toml")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert (done.returncode, "1 of them unsafe (GATE-01)" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize("name", MADE_UP)
def test_a_scenario_stays_below_the_peak_that_it_states(
    name: str, fresh_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in use at once is never more than a scenario says, contexts and handles aside."""
    total, used = 141 * GIB, [0.0]
    take = SimulatedMemory.take

    def watched(memory: SimulatedMemory, label: str, size: int) -> None:
        take(memory, label, size)
        free, whole = memory.read()
        used.append(1 - free / whole)

    monkeypatch.setattr(SimulatedMemory, "take", watched)
    with World(load_subject("reference"), fresh_folder(), [Device(total=total)] * 2) as world:
        MADE_UP[name].run(SimulatedCard(world, 1))

    assert 0 < max(used) < MADE_UP[name].peak + 0.03
