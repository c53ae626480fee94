# SPDX-License-Identifier: Apache-2.0
"""A subject at work in a small engine: what it sees of the worker, and how it is called.

The subject sees simulated modules of vLLM and torch whose figures are those of the card. They are
in place only while it is called: an engine that runs on the real torch needs that one in between.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, final

from startup_plan.harness.stubs.worker import (
    Footprint,
    MemorySnapshot,
    ModelRunner,
    SimulatedWorker,
    StubDevice,
)
from startup_plan.harness.world.calls import call
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.support.environment import FLAG, ROOT, flag_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from startup_plan.harness.stubs.state import Simulation
    from startup_plan.harness.world.subject import Subject

    from .order import Order, Report


@final
class SubjectPlan:
    """The subject in one boot.

    Args:
        order: the boot.
        subject: the implementation; nobody else may boot with the same object at the same time.
        simulation: what the simulated modules answer from.
        bench: puts the simulated modules in place while the subject is called.
    """

    def __init__(
        self,
        order: Order,
        subject: Subject,
        simulation: Simulation,
        bench: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Nothing is loaded yet."""
        self._order = order
        self._subject = subject
        self._simulation = simulation
        self._bench = bench
        self._is_new = True

    def worker(self, report: Report) -> SimulatedWorker:
        """The worker that the subject sees, its weights loaded."""
        order = self._order
        engine = Engine(order.name)
        engine.set(UTILIZATION, order.utilization)
        for path, value in order.settings.items():
            engine.set(path, value)
        engine.explicit = order.explicit
        used = report.total - report.free
        device = StubDevice("cuda", order.device)
        with self._bench():
            snapshot = MemorySnapshot(
                free_memory=report.free,
                total_memory=report.total,
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
            requested_memory=report.budget,
            model_runner=ModelRunner(
                Footprint(order.weights, 0, order.activations, order.graphs), report.calls
            ),
        )

    def look_up(self, worker: SimulatedWorker, report: Report) -> None:
        """Call `maybe_apply_startup_plan` and take note of what it did."""
        with self._called("apply", report):
            before = worker.vllm_config.compute_hash()
            asked = len(self._simulation.queries)
            call(self._modules().maybe_apply_startup_plan, worker)
            report.queries = len(self._simulation.queries) - asked
            report.hashes = [before, worker.vllm_config.compute_hash()]
        report.left = worker.cache_config.kv_cache_memory_bytes
        report.applied = report.left if self._order.explicit is None else None

    def save(self, worker: SimulatedWorker, size: int, report: Report) -> None:
        """Call `maybe_save_startup_plan`."""
        with self._called("save", report):
            call(self._modules().maybe_save_startup_plan, worker, size)

    @contextlib.contextmanager
    def _called(self, where: str, report: Report) -> Iterator[None]:
        with self._bench(), self._environment():
            self._simulation.current_device = self._order.device
            told = len(self._simulation.log)
            try:
                yield
            except Exception as error:
                report.raised, report.where = f"{type(error).__name__}: {error}"[:300], where
            report.log += [message for _, message in self._simulation.log[told:]]

    def _modules(self) -> ModuleType:
        """The subject's modules as this boot left them; the first call is that of a new process."""
        if self._is_new:
            self._is_new = False
            return self._subject.fresh()
        return self._subject.resume()

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        before = {name: os.environ.pop(name, None) for name in (FLAG, ROOT)}
        os.environ.update({ROOT: self._order.cache_root, **flag_value(self._order.enabled)})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
