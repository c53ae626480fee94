# SPDX-License-Identifier: Apache-2.0
"""The life of a small engine on a card: the steps and the sums of vLLM's worker, and nothing else.

The sums are those of `determine_available_memory` and `compile_or_warm_up_model` in vLLM's
`gpu_worker.py`, with memory counted as `utils/mem_utils.py` counts it: what is consumed is the
difference of two readings of the device, and the transient peak comes on top.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from .memory import CardMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .memory import CardMemory
    from .order import Order, Report

_STEPS: Final = 3
"""Steps that are served once everything stands."""


class Plan(Protocol):
    """A subject in the place of vLLM's startup plan, for one boot."""

    def worker(self, report: Report) -> Any:
        """The worker that the subject sees, its weights loaded."""

    def look_up(self, worker: Any, report: Report) -> None:
        """`maybe_apply_startup_plan`; what came of it is in the report."""

    def save(self, worker: Any, size: int, report: Report) -> None:
        """`maybe_save_startup_plan` with `size` bytes."""


def live(order: Order, memory: CardMemory, plan: Plan, report: Report) -> Iterator[str]:
    """Boot, one stage at each step; `report` holds what is known so far.

    Yields:
        Each of `card_order.STAGES` that is reached. What ends a boot early is in the report.
    """
    report.name, report.utilization = order.name, order.utilization
    try:
        for stage in _stages(order, memory, plan, report):
            report.stage = stage
            yield stage
    except CardMemoryError as error:
        report.out_of_memory = str(error)


def _stages(order: Order, memory: CardMemory, plan: Plan, report: Report) -> Iterator[str]:
    memory.open()
    report.free, report.total = memory.read()
    report.budget = math.ceil(report.total * order.utilization)
    yield "snapshot"

    if report.free < report.budget:
        report.refused = "less memory is free than the utilization asks for"
        return
    memory.prepare()
    memory.take("weights", order.weights)
    worker = plan.worker(report)
    yield "loaded"

    plan.look_up(worker, report)
    if report.where:
        return
    yield "looked-up"

    report.calls.append("profile_run")
    headroom = memory.forward(order.activations)
    if report.left:
        report.kv = report.left
    else:
        report.refused = _measure(order, memory, worker, headroom, report)
        if report.refused:
            return
    yield "profiled"

    memory.take("kv", report.kv)
    yield "allocated"

    if order.graphs:
        report.calls.append("capture_model")
        report.graphs = memory.capture("graphs", order.graphs)
    yield "captured"

    if report.left is None and report.consumed is not None:
        taken = report.consumed + (report.headroom or 0) + (report.estimate or 0) + report.graphs
        report.suggestion = report.budget - taken - memory.buffer
        plan.save(worker, report.suggestion, report)
        if report.raised:
            return
    yield "saved"

    for _ in range(_STEPS):
        memory.forward(order.activations)
    report.written = memory.write("kv")
    yield "served"


def _measure(order: Order, memory: CardMemory, worker: Any, headroom: int, report: Report) -> str:
    """Find out what the KV cache may take, as `determine_available_memory` does.

    Returns:
        Why the worker gives up, or "".
    """
    estimate = 0
    free, _ = memory.read()
    if free > report.free:
        return "somebody gave memory back while it profiled"
    consumed = report.free - free
    if order.graphs:
        report.calls.append("profile_cudagraph_memory")
        estimate = memory.capture("estimate", order.graphs)
        memory.give("estimate")
    available = report.budget - consumed - headroom - estimate
    report.consumed, report.headroom, report.estimate = consumed, headroom, estimate
    worker.total_consumed = consumed
    worker.peak_activation_memory = headroom + estimate
    worker.cudagraph_memory_estimate = estimate
    worker.available_kv_cache_memory_bytes = available
    # Whole blocks, as vLLM's KV cache has them.
    report.kv = available // memory.granule * memory.granule
    return "" if report.kv > 0 else "there is no room for a KV cache"
