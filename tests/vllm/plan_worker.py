# SPDX-License-Identifier: Apache-2.0
"""A CPU worker that uses the startup plan, for `--worker-cls plan_worker.PlanWorker`.

vLLM's own CPU worker measures its memory without one. This class asks and saves at the places
where `gpu_worker` does, through that module's names at the time of the call, so that whatever has
been put there is what runs. What the process and its plan did is written to a record for the test.
"""

from __future__ import annotations

import json
import math
import os
from types import SimpleNamespace
from typing import Any, Final

import torch
from vllm.platforms import current_platform
from vllm.v1.worker import gpu_worker
from vllm.v1.worker.cpu_worker import CPUWorker

RECORD: Final = "PLAN_WORKER_RECORD"
"""Variable: the file to which a boot appends what it did, as one line of JSON."""

FREE: Final = "PLAN_WORKER_FREE_BYTES"
"""Variable: free memory of the device in bytes. That of a real host is different at each boot."""

TOTAL: Final = "PLAN_WORKER_TOTAL_BYTES"
"""Variable: total memory of the device in bytes."""


class PlanWorker(CPUWorker):  # type: ignore[misc]  # vLLM is not installed where types are checked
    """vLLM's CPU worker on a device of a stated size, with a startup plan."""

    def init_device(self) -> None:
        """Give the worker what a plan reads, as `gpu_worker` has it."""
        super().init_device()
        free, total = int(os.environ[FREE]), int(os.environ[TOTAL])
        # vLLM's figure is the host's memory, which grows and shrinks on some virtual machines.
        type(current_platform).get_device_total_memory = classmethod(lambda *_: total)
        self.device = torch.device("cpu", self.local_rank)
        self.init_snapshot = SimpleNamespace(free_memory=free, total_memory=total)
        self.requested_memory = math.ceil(total * self.cache_config.gpu_memory_utilization)
        # What vLLM measures on CPU: this less what the process holds, so never twice the same.
        self.requested_cpu_memory = self.requested_memory

    def determine_available_memory(self) -> int:
        """Apply a plan, or measure (bytes)."""
        before = self.vllm_config.compute_hash()
        gpu_worker.maybe_apply_startup_plan(self)
        applied = self.cache_config.kv_cache_memory_bytes
        size: int = super().determine_available_memory()
        self.measured_bytes = None if applied else size
        _record(
            step="memory",
            pid=os.getpid(),
            parent=os.getppid(),
            hash_seed=os.environ.get("PYTHONHASHSEED"),
            plan=gpu_worker.maybe_apply_startup_plan.__module__,
            applied=applied,
            size=size,
            hash_before=before,
            hash_after=self.vllm_config.compute_hash(),
        )
        return size

    def compile_or_warm_up_model(self) -> Any:
        """Save what was measured, at the end of the boot."""
        times = super().compile_or_warm_up_model()
        if self.measured_bytes is not None:
            gpu_worker.maybe_save_startup_plan(self, self.measured_bytes)
        return times


def _record(**facts: Any) -> None:
    with open(os.environ[RECORD], "a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
