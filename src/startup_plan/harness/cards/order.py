# SPDX-License-Identifier: Apache-2.0
"""One boot on a card: what it shall be, and what came of it, in forms that travel as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, final

from startup_plan.harness.stubs.units import gib

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


@final
@dataclass(slots=True)
class Order:
    """One boot of a small engine. Sizes in bytes.

    Attributes:
        cache_root: `VLLM_CACHE_ROOT`.
        name: how stories call the engine.
        utilization: `gpu_memory_utilization`.
        weights: what loading takes.
        activations: transient peak of a forward pass at the largest batch.
        graphs: what capturing CUDA graphs takes; 0 for an eager engine.
        enabled: the feature's flag; None leaves it unset.
        explicit: `kv_cache_memory_bytes` as the operator set it, or None.
        device: index of the device.
        settings: dotted path -> value, in the configuration.
    """

    cache_root: str
    name: str = "the engine"
    utilization: float = 0.5
    weights: int = 0
    activations: int = 0
    graphs: int = 0
    enabled: bool | None = True
    explicit: int | None = None
    device: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


@final
@dataclass(slots=True)
class Report:
    """What came of one boot on a card. Sizes in bytes.

    Attributes:
        name: the engine.
        utilization: its `gpu_memory_utilization`.
        stage: what it reached last, one of `STAGES`, or "".
        free: free memory when it began, its own context already there.
        total: memory of the device.
        budget: what it may use.
        refused: why the worker itself gave up, or "".
        out_of_memory: the device's refusal in words, or "".
        left: `kv_cache_memory_bytes` as the look-up left it.
        applied: the same where the operator had set none.
        consumed: what profiling found taken, None where it did not measure; likewise `headroom`,
            the transient peak, and `estimate`, that of CUDA graphs.
        graphs: what CUDA graphs took.
        kv: the KV cache that was allocated.
        written: how much of it was written and read back.
        suggestion: the value handed over for saving, or None.
        calls: passes that ran, in order.
        queries: device queries of the subject during its look-up.
        hashes: `compute_hash()` before and after the look-up.
        log: lines of the subject.
        raised: what the subject raised, in words, or "".
        where: "apply" or "save".
    """

    name: str = ""
    utilization: float = 0.0
    stage: str = ""
    free: int = 0
    total: int = 0
    budget: int = 0
    refused: str = ""
    out_of_memory: str = ""
    left: int | None = None
    applied: int | None = None
    consumed: int | None = None
    headroom: int | None = None
    estimate: int | None = None
    graphs: int = 0
    kv: int = 0
    written: int = 0
    suggestion: int | None = None
    calls: list[str] = field(default_factory=list)
    queries: int = 0
    hashes: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    raised: str = ""
    where: str = ""

    def __str__(self) -> str:
        """One clause of a story."""
        head = f"{self.name} at {self.utilization:g} finds {gib(self.free)} free"
        if self.refused:
            return f"{head} and gives up ({self.refused})"
        if self.raised:
            return f"{head}; the subject raises in {self.where}: {self.raised}"
        if self.left is not None:
            end = f"uses {gib(self.left)}" if self.applied is None else f"applies {gib(self.left)}"
        else:
            end = f"measures {gib(self.kv)}, hands over {gib(self.suggestion)}"
        if self.out_of_memory:
            end += f" and runs out of memory ({self.out_of_memory})"
        return f"{head}, {end}"
