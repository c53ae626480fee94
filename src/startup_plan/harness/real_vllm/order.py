# SPDX-License-Identifier: Apache-2.0
"""What a boot of vLLM's own worker shall be, in a form that travels as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, final

from startup_plan.harness.stubs.units import GIB, MIB

ASSIGNED: Final = "parallel_config.assigned_physical_gpu_ids"
"""The setting that gives an engine some of a host's cards, in releases that have it."""


@final
@dataclass(slots=True)
class Accelerator:
    """A simulated accelerator under real vLLM. Sizes in bytes.

    Attributes:
        name: product name.
        total: its memory.
        held: what processes other than the engine hold of it.
    """

    name: str = "Simulated H200"
    total: int = 80 * GIB
    held: int = 512 * MIB


@final
@dataclass(slots=True)
class Load:
    """What a rank takes of its card besides the KV cache. Sizes in bytes.

    Attributes:
        weights: loaded weights.
        unseen: how much of them lies in a pool that the device's figures leave out.
        persistent: what profiling leaves behind outside torch: contexts, workspaces, buffers.
        activations: transient peak of a forward pass.
        graphs: CUDA graphs when they are captured.
        estimate: what the worker's estimate of them comes to.
    """

    weights: int = 14 * GIB
    unseen: int = 0
    persistent: int = GIB
    activations: int = 6 * GIB
    graphs: int = GIB
    estimate: int = GIB


@final
@dataclass(slots=True)
class RankOrder:
    """What is particular to one rank.

    Attributes:
        held: bytes that others hold of its card beyond what the card itself says.
        broken: device queries that fail (`state.Simulation.broken`).
        other_schema: whether its process has another plan schema version.
        cache_root: this rank's own `VLLM_CACHE_ROOT`, or None for that of all.
        stays_away: whether it waits, before the look-up, until it is killed.
        no_group: whether its process has no process group when it looks its plan up.
        runs_out: the pass of the model runner in which its device runs out of memory, or "".
    """

    held: int = 0
    broken: tuple[str, ...] = ()
    other_schema: bool = False
    cache_root: str | None = None
    stays_away: bool = False
    no_group: bool = False
    runs_out: str = ""


@final
@dataclass(slots=True)
class BootOrder:
    """One boot of an engine, all its ranks.

    Attributes:
        cache_root: `VLLM_CACHE_ROOT`.
        model: kind of tiny model (`tiny_models`).
        tensor: tensor-parallel size.
        pipeline: pipeline-parallel size.
        replicas: data-parallel size; the ranks of all replicas boot together.
        enabled: the feature's flag; None leaves it unset.
        explicit: `kv_cache_memory_bytes` as the operator set it, or None.
        settings: dotted path -> value, set on the real configuration.
        rewrites: the same, set between the measurement and the save as the engine does (KEY-16).
        environment: further variables.
        cards: the accelerators of the host, at least one a rank.
        load: what each rank takes.
        ranks: particulars, by rank; ranks that are not named have none.
        patience: seconds without any progress after which the group hangs.
    """

    cache_root: str
    model: str = "llama"
    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    enabled: bool | None = True
    explicit: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rewrites: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    cards: list[Accelerator] = field(default_factory=lambda: [Accelerator() for _ in range(4)])
    load: Load = field(default_factory=Load)
    ranks: dict[int, RankOrder] = field(default_factory=dict)
    patience: float = 3.0

    @property
    def size(self) -> int:
        """Number of ranks that boot together."""
        return self.tensor * self.pipeline * self.replicas

    def card_of(self, rank: int) -> int:
        """The place in `cards` of the one on which `rank` runs."""
        assigned: list[int] = self.settings.get(ASSIGNED) or list(range(len(self.cards)))
        return assigned[rank]

    def of(self, rank: int) -> RankOrder:
        """The particulars of `rank`."""
        return self.ranks.get(rank, RankOrder())

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> BootOrder:
        """Read what `dataclasses.asdict` made, after a journey as JSON."""
        cards = [Accelerator(**card) for card in values["cards"]]
        ranks = {
            int(rank): RankOrder(**{**order, "broken": tuple(order["broken"])})
            for rank, order in values["ranks"].items()
        }
        load = Load(**values["load"])
        return cls(**{**values, "cards": cards, "load": load, "ranks": ranks})
