# SPDX-License-Identifier: Apache-2.0
"""The steps and the sums of vLLM's worker, in named stages, on whatever memory and for any plan.

The sums are those of `determine_available_memory` and `compile_or_warm_up_model` in vLLM's
`gpu_worker.py`, with memory counted as `utils/mem_utils.py` counts it: what is consumed is the
difference of two readings of the device, and the transient peak comes on top.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from .calls import call
from .subject import MissingFunctionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from .outcome import BootResult

STAGES: Final = (
    "snapshot",
    "loaded",
    "looked-up",
    "profiled",
    "allocated",
    "captured",
    "saved",
    "served",
)
"""Where a boot can be held, in the order in which it comes there."""

KV: Final = "kv"
"""The label under which the KV cache is taken."""

_SERVED_PASSES: Final = 3
"""Passes that are served once everything stands."""


class DeviceMemoryError(Exception):
    """The device has no more memory; the message is the device's own."""


class Needs(Protocol):
    """What a rank takes besides its KV cache. Sizes in bytes."""

    @property
    def weights(self) -> int:
        """What loading takes."""

    @property
    def activations(self) -> int:
        """Transient peak of a forward pass at the largest batch."""

    @property
    def graphs(self) -> int:
        """What capturing CUDA graphs takes; 0 for an eager engine."""


class Memory(Protocol):
    """The memory of one device as one process sees it. Sizes in bytes."""

    @property
    def granule(self) -> int:
        """The smallest step in which it gives memory."""

    @property
    def buffer(self) -> int:
        """The safety buffer of the worker on such a device."""

    def open(self) -> None:
        """Create the context of this process."""

    def read(self) -> tuple[int, int]:
        """Free and total memory, as the device answers."""

    def prepare(self) -> None:
        """Create library handles, with whatever they take for good."""

    def take(self, label: str, size: int) -> None:
        """Allocate and keep.

        Raises:
            DeviceMemoryError: there is not so much; likewise of the passes below.
        """

    def give(self, label: str) -> None:
        """Give back what was taken under this label."""

    def forward(self, size: int) -> int:
        """One pass with `size` bytes of activations; the transient peak."""

    def capture(self, label: str, size: int) -> int:
        """Capture graphs that hold `size` bytes; what that took of the device."""

    def write(self, label: str) -> int:
        """Write everything under this label and read it back; the bytes that came back right."""


class Attendant(Protocol):
    """A subject in the place of vLLM's startup plan, for one boot."""

    @property
    def graphs_once(self) -> bool:
        """Whether its worker takes CUDA graphs off what is saved once, not twice."""

    def worker(self, result: BootResult) -> Any:
        """The worker that the subject sees, its weights loaded."""

    def look_up(self, worker: Any, result: BootResult) -> None:
        """`maybe_apply_startup_plan`; what came of it is in the result."""

    def save(self, worker: Any, size: int, result: BootResult) -> None:
        """`maybe_save_startup_plan` with `size` bytes."""


def boot(needs: Needs, memory: Memory, plan: Attendant, result: BootResult) -> Iterator[str]:
    """Boot, one stage at each step; `result` holds what is known so far.

    Args:
        needs: what the rank takes.
        memory: where it takes it.
        plan: the subject.
        result: knows its engine, utilization and explicit size; the rest is filled in.

    Yields:
        Each of `STAGES` that is reached. What ends a boot early is in the result.
    """
    try:
        for stage in _stages(needs, memory, plan, result):
            result.stage = stage
            yield stage
    except DeviceMemoryError as error:
        result.shortage = str(error)


def _stages(needs: Needs, memory: Memory, plan: Attendant, result: BootResult) -> Iterator[str]:
    memory.open()
    result.free, result.total = memory.read()
    result.budget = math.ceil(result.total * result.utilization)
    yield "snapshot"

    if result.free < result.budget:
        result.gave_up = True
        result.refused = "less memory is free than the utilization asks for"
        return
    memory.prepare()
    memory.take("weights", needs.weights)
    worker = plan.worker(result)
    yield "loaded"

    plan.look_up(worker, result)
    if result.where:
        return
    yield "looked-up"

    result.calls.append("profile_run")
    headroom = memory.forward(needs.activations)
    # A subject may have left anything there.
    size: object = result.left
    if not size:
        result.measured = _measured(needs, memory, headroom, result)
        # Whole blocks, as vLLM's KV cache has them.
        size = result.measured // memory.granule * memory.granule
    result.kv = size if type(size) is int else 0
    if result.kv <= 0:
        # vLLM gives up: there is no room for a single block.
        result.gave_up = True
        return
    yield "profiled"

    memory.take(KV, result.kv)
    yield "allocated"

    if needs.graphs:
        result.calls.append("capture_model")
        result.graphs = memory.capture("graphs", needs.graphs)
    yield "captured"

    if result.left is None and result.consumed is not None:
        # As the released worker: graphs are counted as estimate and as taken (BOOT-08).
        estimate = 0 if plan.graphs_once else result.estimate or 0
        taken = result.consumed + headroom + estimate + result.graphs
        result.suggestion = result.budget - taken - memory.buffer
        plan.save(worker, result.suggestion, result)
        if result.raised is not None:
            return
    yield "saved"

    for _ in range(_SERVED_PASSES):
        memory.forward(needs.activations)
    result.written = memory.write(KV)
    yield "served"


def _measured(needs: Needs, memory: Memory, headroom: int, result: BootResult) -> int:
    """What the KV cache may take, as `determine_available_memory` finds it."""
    free, _ = memory.read()
    if free > result.free:
        result.refused = "somebody gave memory back while it profiled"
        return 0
    estimate = 0
    if needs.graphs:
        result.calls.append("profile_cudagraph_memory")
        estimate = memory.capture("estimate", needs.graphs)
        memory.give("estimate")
    result.consumed, result.headroom, result.estimate = result.free - free, headroom, estimate
    return result.budget - result.consumed - headroom - estimate


def look_up(
    module: ModuleType,
    worker: Any,
    result: BootResult,
    during: contextlib.AbstractContextManager[Any] | None = None,
    *,
    watch_hash: bool = True,
) -> None:
    """Let a subject's module look up its plan, and take note of what it did.

    Args:
        module: the module.
        worker: the worker that it sees.
        result: takes the notes.
        during: entered around the call, for faults.
        watch_hash: whether the config hash is noted before and after (BOOT-05).
    """
    config = worker.vllm_config
    before = config.compute_hash() if watch_hash else ""
    with noting(result, "apply"), during or contextlib.nullcontext():
        call(module.maybe_apply_startup_plan, worker)
    if result.where:
        return
    if watch_hash:
        result.config_hash = (before, config.compute_hash())
    result.left = worker.cache_config.kv_cache_memory_bytes
    if result.explicit is None:
        result.applied = result.left


@contextlib.contextmanager
def noting(result: BootResult, where: str) -> Iterator[None]:
    """Keep what the subject raises within, in `result`; a function that it lacks is no such thing.

    Args:
        result: takes the note.
        where: "apply" or "save".
    """
    try:
        yield
    except MissingFunctionError:
        raise
    except Exception as error:
        result.raised, result.where = error, where
