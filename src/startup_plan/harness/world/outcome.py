# SPDX-License-Identifier: Apache-2.0
"""What came of one rank's boot, wherever it booted, in a form that travels as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, final

from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.stubs.worker import SimulatedWorker

_LONGEST: Final = 600
"""Characters of what was raised that travel."""


@final
class ElsewhereError(Exception):
    """What was raised in another process, in words."""


def words_of(error: Exception) -> str:
    """An exception as `Type: message`, also after a journey."""
    return str(error) if isinstance(error, ElsewhereError) else f"{type(error).__name__}: {error}"


@final
@dataclass(slots=True)
class BootResult:
    """The outcome of one rank's boot. All sizes are bytes.

    A world, a card and real vLLM each know a part of this; what they do not know stays as it is in
    a new result.

    Attributes:
        engine: name of the engine.
        utilization: its `gpu_memory_utilization`.
        rank: which rank.
        explicit: `kv_cache_memory_bytes` as the operator set it, or None.
        stage: what the boot reached last, one of `worker_steps.STAGES`; on real vLLM: "groups",
            "look-up", "profile run", "graph estimate", "warm-up", "save", "done".
        hung: whether it was waiting without end when its group was ended.
        free: free memory of the rank's device when the boot began.
        total: memory of the device.
        budget: utilization times total, rounded up.
        gave_up: whether the worker itself ended the boot.
        refused: why it did so before it had measured anything that fits, or "".
        left: `kv_cache_memory_bytes` as the look-up left it.
        applied: the same where the operator had set none: what the subject put there.
        changed: other settings that the look-up changed.
        consumed: what profiling found taken, None where it did not measure; likewise `headroom`,
            the transient peak, and `estimate`, that of CUDA graphs.
        graphs: what CUDA graphs took.
        measurable: the KV cache that a full measurement gives in this boot.
        measured: the KV cache that the measurement arrived at, None where there was none.
        kv: the KV cache that was allocated, 0 if the boot did not get so far.
        needed: everything that the rank takes at the worst moment, KV cache included.
        shortage: the device's refusal in words, or "".
        written: how much of the KV cache was written and read back.
        suggestion: the value handed to the subject for saving, or None.
        calls: passes that the worker ran, in order.
        log: lines that the subject logged, as (level, message).
        queries: device queries that were made, as (name, device index).
        raised: what was raised out of the boot, or None.
        where: "apply" or "save" if the subject raised it, otherwise "".
        killed: whether a simulated kill ended the process inside the subject.
        config_hash: `compute_hash()` before and after the look-up; None unless it was watched.
        legal: the values that boots under the very same inputs have left to be applied.
        worker: the worker that booted, as the subject left it; None if it gave up before.
    """

    engine: str = "engine"
    utilization: float = 0.0
    rank: int = 0
    explicit: int | None = None
    stage: str = ""
    hung: bool = False
    free: int = 0
    total: int = 0
    budget: int = 0
    gave_up: bool = False
    refused: str = ""
    left: int | None = None
    applied: int | None = None
    changed: list[str] = field(default_factory=list)
    consumed: int | None = None
    headroom: int | None = None
    estimate: int | None = None
    graphs: int = 0
    measurable: int = 0
    measured: int | None = None
    kv: int = 0
    needed: int = 0
    shortage: str = ""
    written: int = 0
    suggestion: int | None = None
    calls: list[str] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    queries: list[tuple[str, int]] = field(default_factory=list)
    raised: Exception | None = None
    where: str = ""
    killed: bool = False
    config_hash: tuple[str, str] | None = None
    legal: frozenset[int] = frozenset()
    worker: SimulatedWorker | None = None

    @property
    def hashes(self) -> tuple[str, str]:
        """`config_hash` of a boot in which somebody watched it (BOOT-05)."""
        assert self.config_hash is not None, "nobody watched the config hash in this boot"
        return self.config_hash

    @property
    def out_of_memory(self) -> bool:
        """Whether the rank needed more than its device had free."""
        return bool(self.shortage) or self.needed > self.free

    @property
    def lines(self) -> list[str]:
        """The logged messages without their levels."""
        return [message for _, message in self.log]

    @property
    def fate(self) -> str:
        """What came of it, as the end of a clause."""
        if self.hung:
            return f"waits without end in {self.stage!r}"
        if self.refused:
            return f"was refused by the worker ({self.refused})"
        if self.raised is not None:
            words = words_of(self.raised)
            if not self.where:
                return f"raised in {self.stage!r}: {words}"
            kind, _, message = words.partition(": ")
            return f"raised {kind} in {self.where}: {message}"
        if self.killed and self.suggestion is None:
            return "was killed in its look-up"
        if self.killed:
            return f"was killed while it saved {gib(self.suggestion)}"
        if self.applied is not None:
            return f"applied {gib(self.applied)}"
        if self.explicit is not None:
            return f"used the explicit {gib(self.explicit)}"
        return f"measured {gib(self.measured)}, handed {gib(self.suggestion)} to be saved"

    def __str__(self) -> str:
        """One clause of a story."""
        clause = f"boot of {self.engine} at {self.utilization:g} {self.fate}"
        if self.applied is not None:
            clause += f" (budget {gib(self.budget)}, free {gib(self.free)})"
        if self.shortage:
            clause += f" and ran out of memory: {self.shortage}"
        return clause

    def to_values(self) -> dict[str, Any]:
        """What `from_values` takes, as JSON; worker and legal values stay behind."""
        values = {name: getattr(self, name) for name in _TRAVELLERS}
        if self.raised is not None:
            values["raised"] = words_of(self.raised)[:_LONGEST]
        return values

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        """Read what `to_values` wrote."""
        watched = values["config_hash"]
        pairs = {name: [(one, two) for one, two in values[name]] for name in ("log", "queries")}
        raised = None if values["raised"] is None else ElsewhereError(values["raised"])
        return cls(
            **{**values, **pairs, "config_hash": watched and tuple(watched), "raised": raised}
        )


_TRAVELLERS: Final = tuple(
    each.name for each in dataclasses.fields(BootResult) if each.name not in {"legal", "worker"}
)
