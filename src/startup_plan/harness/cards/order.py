# SPDX-License-Identifier: Apache-2.0
"""What one boot on a card shall be, in a form that travels as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from startup_plan.harness.world.outcome import BootResult


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

    def new_result(self) -> BootResult:
        """The outcome of a boot that has not begun."""
        return BootResult(self.name, self.utilization, explicit=self.explicit)
