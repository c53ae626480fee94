# SPDX-License-Identifier: Apache-2.0
"""One rank's boot on vLLM's own worker, in a process of its own.

`init_device`, `load_model`, `determine_available_memory` and `compile_or_warm_up_model` are those
of `vllm/v1/worker/gpu_worker.py`, unmodified. What they stand on is simulated: the accelerator, the
model runner, and the warm-up of kernels, which needs hardware. Between the two the engine's part is
played: the KV cache is allocated, and settings are rewritten (KEY-16).
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.log import keep_line
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate, active
from startup_plan.harness.world.calls import call
from startup_plan.harness.world.outcome import BootResult
from startup_plan.harness.world.subject import other_schemas
from startup_plan.support.environment import FLAG, ROOT, flag_value
from startup_plan.support.logged_lines import LoggedLines

from . import device as real_device
from .runner import RecordingRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from startup_plan.harness.world.subject import Subject

    from .order import BootOrder

SHIPPED: Final = "vllm.v1.worker.startup_plan"
RUNNERS: Final = ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner")
"""Modules from which vLLM's worker takes its model runner when it makes one, in every release."""

FUNCTIONS: Final = ("maybe_apply_startup_plan", "maybe_save_startup_plan")
_KV: Final = "cache_config.kv_cache_memory_bytes"


def boot(
    order: BootOrder,
    rank: int,
    subject: Subject,
    config: Any,
    meeting: str,
    tell: Callable[[str], None],
) -> BootResult:
    """Boot one rank and say what came of it.

    Args:
        order: the boot.
        rank: which rank of all that boot together.
        subject: the implementation under test.
        config: the engine's real `VllmConfig`, this process's own.
        meeting: a file, in which the ranks find each other.
        tell: called with the name of each stage that is entered.
    """
    report = BootResult(rank=rank, explicit=order.explicit, stage="start")
    cards = [Device(card.name, card.total, context=card.held) for card in order.cards]
    own = cards[order.card_of(rank)]
    own.tenants["others"] = order.of(rank).held
    report.free = own.free
    simulation = Simulation(cards, Runtime())
    simulation.log = report.log
    activate(simulation)
    _prepare_environment(order, rank)
    accelerator = real_device.Accelerator(own)
    real_device.install(accelerator)
    for path, value in {**order.settings, _KV: order.explicit}.items():
        assign(config, path, value)
    _place(config, order, rank)
    life = _Life(order, rank, report, accelerator, tell)
    try:
        life.lead(subject, config, meeting)
    except Exception as error:
        # A subject that raises ends the boot, whatever else the engine might have done.
        report.raised = error
    else:
        life.enter("done")
    return report


@final
class _Life:
    """The steps of a boot, and what is noted at each of them."""

    def __init__(
        self,
        order: BootOrder,
        rank: int,
        report: BootResult,
        accelerator: real_device.Accelerator,
        tell: Callable[[str], None],
    ) -> None:
        self._order = order
        self._rank = rank
        self._report = report
        self._accelerator = accelerator
        self._tell = tell
        self._subject: ModuleType | None = None

    def enter(self, stage: str) -> None:
        self._report.stage = stage
        self._tell(stage)

    def lead(self, subject: Subject, config: Any, meeting: str) -> None:
        from vllm.config import set_current_vllm_config  # noqa: PLC0415  # only here is vLLM wanted

        order, report = self._order, self._report
        self.enter("groups")
        with set_current_vllm_config(config):
            worker = self._worker(config, meeting)
            worker.init_device()
            worker.load_model()
            report.budget = int(worker.requested_memory)
            self._put_in_place(subject)
            self.enter("look-up")
            if order.of(self._rank).stays_away:
                signal.pause()
            if order.of(self._rank).no_group:
                _leave_groups()
            # Only now: vLLM itself asks its device while it starts.
            active().broken |= set(order.of(self._rank).broken)
            report.kv = int(worker.determine_available_memory())
            if report.applied is None and order.explicit is None:
                report.measured = int(worker.available_kv_cache_memory_bytes)
            load = order.load
            taken = load.weights + load.persistent + load.activations + load.graphs
            report.needed = taken + report.kv
            for path, value in order.rewrites.items():
                assign(config, path, value)
            self.enter("warm-up")
            worker.compile_or_warm_up_model()

    def _worker(self, config: Any, meeting: str) -> Any:
        from vllm.v1.worker import gpu_worker  # noqa: PLC0415  # only here is vLLM wanted

        gpu_worker.kernel_warmup = lambda _worker: None
        runner = RecordingRunner(
            self._order.load,
            self._accelerator,
            self._report.calls,
            self._meet,
            self._order.of(self._rank).runs_out,
        )
        for module in RUNNERS:
            vars(sys.modules[module])["GPUModelRunner"] = lambda *_: runner
        local = self._rank % (self._order.tensor * self._order.pipeline)
        return gpu_worker.Worker(
            config, local, local, f"file://{meeting}", is_driver_worker=local == 0
        )

    def _put_in_place(self, subject: Subject) -> None:
        """The subject's functions where vLLM's worker finds its own."""
        import importlib  # noqa: PLC0415  # as below

        from vllm.v1.worker import gpu_worker  # noqa: PLC0415  # only here is vLLM wanted

        shipped = importlib.import_module(SHIPPED)
        capture(self._report.log)
        own = subject.schema
        if self._order.of(self._rank).other_schema and own is not None:
            self._subject = subject.fresh_as(other_schemas(own)[0])
        else:
            self._subject = subject.fresh()
        for name, function in zip(FUNCTIONS, (self._apply, self._save), strict=True):
            if not hasattr(gpu_worker, name):
                raise RuntimeError(f"this vLLM's worker does not call {name}")
            setattr(gpu_worker, name, function)
            setattr(shipped, name, function)

    def _apply(self, worker: Any) -> None:
        config, report = worker.vllm_config, self._report
        before, spelled = config.compute_hash(), flat(config)
        try:
            assert self._subject is not None
            call(self._subject.maybe_apply_startup_plan, worker)
        except Exception:
            report.where = "apply"
            raise
        report.config_hash = (before, config.compute_hash())
        after = flat(config)
        paths = [path for path in {**spelled, **after} if spelled.get(path) != after.get(path)]
        report.changed = sorted(path for path in paths if path != _KV)
        report.left = worker.cache_config.kv_cache_memory_bytes
        if self._order.explicit is None:
            report.applied = report.left

    def _save(self, worker: Any, kv_cache_memory_bytes: int) -> None:
        report = self._report
        report.suggestion = kv_cache_memory_bytes
        self.enter("save")
        try:
            assert self._subject is not None
            call(self._subject.maybe_save_startup_plan, worker, kv_cache_memory_bytes)
        except Exception:
            report.where = "save"
            raise

    def _meet(self, stage: str) -> None:
        """What a pass of a sharded model does: exchange with every rank beside it."""
        self.enter(stage)
        if self._order.size == 1:
            return
        import torch  # noqa: PLC0415  # only here is it wanted
        from vllm.distributed.parallel_state import get_world_group  # noqa: PLC0415  # likewise

        torch.distributed.all_reduce(torch.ones(1), group=get_world_group().cpu_group)
        self._tell(f"{stage}, done")


def _prepare_environment(order: BootOrder, rank: int) -> None:
    os.environ.update(order.environment)
    os.environ[ROOT] = order.of(rank).cache_root or order.cache_root
    os.environ.pop(FLAG, None)
    os.environ.update(flag_value(order.enabled))


def _leave_groups() -> None:
    """Be a process that never made a group, as far as anybody can ask."""
    import torch  # noqa: PLC0415  # only here is it wanted
    from vllm.distributed import parallel_state  # noqa: PLC0415  # likewise

    torch.distributed.destroy_process_group()
    parallel_state._WORLD = None


def _place(config: Any, order: BootOrder, rank: int) -> None:
    """What an engine core writes into the configuration of the replica that it starts."""
    import torch  # noqa: PLC0415  # only here is it wanted
    from vllm.config import CompilationMode, CUDAGraphMode  # noqa: PLC0415  # likewise

    config.device_config.device_type = "cuda"
    config.device_config.device = torch.device("cuda")
    config.compilation_config.mode = CompilationMode.NONE
    if "compilation_config.cudagraph_mode" not in order.settings:
        config.compilation_config.cudagraph_mode = CUDAGraphMode.FULL_AND_PIECEWISE
    if order.replicas > 1:
        replica = rank // (order.tensor * order.pipeline)
        parallel = config.parallel_config
        parallel.data_parallel_rank = parallel.data_parallel_index = replica
        parallel.data_parallel_rank_local = replica


def assign(config: Any, path: str, value: Any) -> None:
    """Set one setting of a real configuration, past its validation.

    Raises:
        AttributeError: there is no such setting.
    """
    *sections, name = path.split(".")
    for section in sections:
        config = getattr(config, section)
    current = getattr(config, name)
    enum_class = type(current)
    if isinstance(value, str) and hasattr(enum_class, "__members__"):
        value = enum_class[value]
    object.__setattr__(config, name, value)


def flat(config: Any, head: str = "") -> dict[str, str]:
    """Path -> spelling of every setting of a tree of configuration classes."""
    spelled: dict[str, str] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name, None)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            spelled |= flat(value, f"{head}{field.name}.")
        else:
            spelled[head + field.name] = repr(value)
    return spelled


_ENGINE_MODULES: Final = frozenset(
    ("gpu_worker", "jit_monitor", "mem_utils", "parallel_state", "utils")
)
"""Where vLLM's worker itself logs; its lines are not the subject's."""


def capture(log: list[tuple[str, str]]) -> None:
    """Keep what is logged from now on below vLLM's logger or the root."""
    for name in ("", "vllm"):
        logger = logging.getLogger(name)
        logger.addHandler(LoggedLines(partial(keep_line, log), _ENGINE_MODULES))
        logger.setLevel(logging.INFO)
