# SPDX-License-Identifier: Apache-2.0
"""The scenarios on a CUDA device: memory that is really occupied, by processes that really boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.cards.crowd_scenarios import ALL
from startup_plan.harness.contract.violation import Violation

if TYPE_CHECKING:
    from startup_plan.harness.cards.processes import RunScenario

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.requirement(*s.ids)) for n, s in ALL.items()]
)
def test_on_a_cuda_device(name: str, on_cuda: RunScenario) -> None:
    """What a scenario must not show, it does not show on a real card."""
    card = on_cuda(name, ALL[name])

    assert card.boots


@pytest.mark.needs("vllm")
def test_table_of_the_shipped_module(on_cuda: RunScenario) -> None:
    """The table of budgets for vLLM's own module: whatever it applies, the device has it."""
    name = "0.8, 0.35, 0.8"
    verdict = ""
    try:
        on_cuda(f"{name}, vLLM's module", ALL[name], "vllm")
    except Violation as violation:
        verdict = str(violation.requirement)

    # That it leaves the budget out of its key is known, and judged where it is the subject.
    assert verdict in ("", "BOOT-06")
