# SPDX-License-Identifier: Apache-2.0
"""Orders and reports of boots on vLLM's own worker, on their way between processes."""

from __future__ import annotations

import dataclasses
import json

from startup_plan.harness.real_vllm.order import Accelerator, BootOrder, Load, RankOrder
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.outcome import BootResult


def test_an_order_survives_the_journey() -> None:
    """What is read is what was written: cards, loads, ranks by number, and all the rest."""
    order = BootOrder(
        "/cache",
        tensor=2,
        pipeline=2,
        settings={"cache_config.gpu_memory_utilization": 0.5},
        environment={"VLLM_PORT": "1"},
        cards=[Accelerator("A", 8 * GIB, 3), Accelerator()],
        load=Load(weights=1),
        ranks={1: RankOrder(held=1, broken=("device_name",), other_schema=True, stays_away=True)},
    )
    arrived = BootOrder.from_values(json.loads(json.dumps(dataclasses.asdict(order))))

    assert (arrived, arrived.size, arrived.of(1).other_schema, arrived.of(0)) == (
        order,
        4,
        True,
        RankOrder(),
    )


def test_a_report_survives_the_journey() -> None:
    """Lines and hashes are pairs again after a journey as JSON."""
    report = BootResult(rank=1, stage="done", free=10, needed=11, log=[("info", "a line")])
    arrived = BootResult.from_values(json.loads(json.dumps(report.to_values())))

    assert (arrived, arrived.lines, arrived.out_of_memory) == (report, ["a line"], True)
