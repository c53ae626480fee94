# SPDX-License-Identifier: Apache-2.0
"""Two boots on the real torch without a GPU: `card_on_cpu.py FOLDER`, reports as JSON.

Everything that `card_cuda` asks of torch is asked of the real one; only what a CUDA device alone
can answer is played, with tensors that really exist and are counted while they do.
"""

from __future__ import annotations

import contextlib
import json
import sys
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, final

import torch

from startup_plan.harness.cards.cuda import CudaMemory
from startup_plan.harness.cards.inside import stubbed
from startup_plan.harness.cards.order import Order
from startup_plan.harness.cards.subject_plan import SubjectPlan
from startup_plan.harness.stubs.state import Runtime, Simulation
from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world import worker_steps
from startup_plan.harness.world.loading import load_subject

if TYPE_CHECKING:
    from startup_plan.harness.world.outcome import BootResult

# Large enough for the safety buffer, which is that of a real card.
TOTAL: Final = 1024 * MIB
CONTEXT: Final = 8 * MIB


@final
class TorchOnCpu:
    """torch, with a device of `TOTAL` bytes that lies in the memory of the host."""

    def __init__(self) -> None:
        """Nothing is allocated."""
        self.allocated = self.peak = 0
        self.OutOfMemoryError = torch.OutOfMemoryError
        self.cuda = SimpleNamespace(
            set_device=lambda _device: None,
            synchronize=lambda _device: None,
            empty_cache=lambda: None,
            mem_get_info=lambda _device: (TOTAL - CONTEXT - self.allocated, TOTAL),
            memory_allocated=lambda _device: self.allocated,
            max_memory_allocated=lambda _device: self.peak,
            reset_peak_memory_stats=self._forget,
            get_device_properties=lambda _device: SimpleNamespace(name="CPU", major=0, minor=1),
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: None, reset=lambda: None),
            graph=contextlib.nullcontext,
        )

    def __getattr__(self, name: str) -> Any:
        """Everything else is torch's own."""
        return getattr(torch, name)

    def device(self, kind: str, index: int) -> str:
        """The name of the device."""
        return f"{kind}:{index}"

    def empty(self, size: int, *, dtype: Any, device: str) -> Any:
        """A tensor that is counted until nobody has it any more."""
        del device
        if size > TOTAL - CONTEXT - self.allocated:
            raise torch.OutOfMemoryError(f"tried to allocate {size} bytes")
        tensor = torch.empty(size, dtype=dtype)
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        weakref.finalize(tensor.untyped_storage(), self._gone, size)
        return tensor

    def zeros(self, *shape: int, device: str) -> Any:
        """Small, and not counted."""
        del device
        return torch.zeros(*shape)

    def ones(self, *shape: int, dtype: Any, device: str) -> Any:
        """As `zeros`."""
        del device
        return torch.ones(*shape, dtype=dtype)

    def _gone(self, size: int) -> None:
        self.allocated -= size

    def _forget(self, _device: str) -> None:
        self.peak = self.allocated


def boot(folder: str, **parts: Any) -> BootResult:
    """One boot, as the engine process leads it."""
    memory = CudaMemory(0, 2 * MIB, TorchOnCpu())
    subject, simulation = load_subject("reference"), Simulation([], Runtime())
    order = Order(folder, weights=64 * MIB, activations=32 * MIB, **parts)
    result = order.new_result()
    plan = SubjectPlan(
        order, subject, simulation, lambda: stubbed(subject, simulation, memory, order.device)
    )
    for _ in worker_steps.boot(order, memory, plan, result):
        pass
    return result


def main(folder: str) -> None:
    """Measure, apply, and ask for too much."""
    graphs = 16 * MIB
    reports = [boot(folder, graphs=graphs), boot(folder, graphs=graphs)]
    reports.append(boot(f"{folder}/other", explicit=TOTAL))
    sys.stdout.write(json.dumps([report.to_values() for report in reports]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
