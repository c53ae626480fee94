# SPDX-License-Identifier: Apache-2.0
"""A subject at work in a small engine: what it sees of the worker, and how it is called.

The subject sees simulated modules of vLLM and torch whose figures are those of the card. They are
in place only while it is called: an engine that runs on the real torch needs that one in between.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, final

from startup_plan.harness.stubs.process_groups import seat_alone, sit
from startup_plan.harness.stubs.worker import (
    Footprint,
    MemorySnapshot,
    ModelRunner,
    SimulatedWorker,
    StubDevice,
)
from startup_plan.harness.world.calls import call
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.harness.world.worker_steps import look_up, noting
from startup_plan.support.environment import FLAG, ROOT, flag_value, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from startup_plan.harness.stubs.state import Simulation
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.subject import Subject

    from .order import Order


@final
class SubjectPlan:
    """The subject in one boot.

    Args:
        order: the boot.
        subject: the implementation; nobody else may boot with the same object at the same time.
        simulation: what the simulated modules answer from.
        stubs: puts the simulated modules in place while the subject is called.
    """

    def __init__(
        self,
        order: Order,
        subject: Subject,
        simulation: Simulation,
        stubs: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Nothing is loaded yet."""
        self._order = order
        self._subject = subject
        self._simulation = simulation
        self._stubs = stubs
        self._is_new = True

    @property
    def graphs_once(self) -> bool:
        """Whether the subject's own worker counts CUDA graphs once."""
        return self._subject.graphs_once

    def worker(self, result: BootResult) -> SimulatedWorker:
        """The worker that the subject sees, its weights loaded."""
        order = self._order
        engine = Engine(order.name)
        engine.set(UTILIZATION, order.utilization)
        for path, value in order.settings.items():
            engine.set(path, value)
        engine.explicit = order.explicit
        used = result.total - result.free
        device = StubDevice("cuda", order.device)
        with self._stubs():
            snapshot = MemorySnapshot(
                free_memory=result.free,
                total_memory=result.total,
                cuda_memory=used,
                non_torch_memory=used,
                device=device,
                auto_measure=False,
            )
        return SimulatedWorker(
            engine.new_config(),
            rank=0,
            local_rank=order.device,
            device=device,
            snapshot=snapshot,
            requested_memory=result.budget,
            model_runner=ModelRunner(
                Footprint(order.weights, 0, order.activations, order.graphs), result.calls
            ),
        )

    def look_up(self, worker: SimulatedWorker, result: BootResult) -> None:
        """Call `maybe_apply_startup_plan` and take note of what it did."""
        with self._called(worker, result):
            look_up(self._modules(), worker, result)

    def save(self, worker: SimulatedWorker, size: int, result: BootResult) -> None:
        """Call `maybe_save_startup_plan`, with what vLLM's worker has noted of its measurement."""
        estimate = result.estimate or 0
        in_the_peak = 0 if self.graphs_once else estimate
        vars(worker).update(
            total_consumed=result.consumed,
            peak_activation_memory=(result.headroom or 0) + in_the_peak,
            cudagraph_memory_estimate=estimate,
            available_kv_cache_memory_bytes=result.measured,
        )
        with self._called(worker, result), noting(result, "save"):
            call(self._modules().maybe_save_startup_plan, worker, size)

    @contextlib.contextmanager
    def _called(self, worker: SimulatedWorker, result: BootResult) -> Iterator[None]:
        order, simulation = self._order, self._simulation
        found = {FLAG: None, ROOT: order.cache_root, **flag_value(order.enabled)}
        with self._stubs(), variables(found):
            simulation.current_device = order.device
            simulation.log, simulation.queries = result.log, []
            sit(seat_alone(worker.parallel_config, worker.rank, order.device))
            try:
                yield
            finally:
                sit(None)
            result.queries += simulation.queries

    def _modules(self) -> ModuleType:
        """The subject's modules as this boot left them; the first call is that of a new process."""
        if self._is_new:
            self._is_new = False
            return self._subject.fresh()
        return self._subject.resume()
