# SPDX-License-Identifier: Apache-2.0
"""What came of one simulated boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from startup_plan.harness.stubs.worker import SimulatedWorker


@final
class BootResult:
    """The outcome of one rank's boot. All sizes are bytes.

    Attributes:
        engine: name of the engine.
        utilization: its `gpu_memory_utilization`.
        free: free memory of the rank's device when the boot began.
        budget: utilization times total, rounded up.
        refused: why the worker itself gave up before any plan was looked at, or "".
        applied: the value that the subject put into the configuration, or None.
        measurable: the value that a full measurement gives in this boot.
        kv: the KV cache that was allocated, 0 if the boot did not get so far.
        needed: everything that the rank takes at the worst moment, KV cache included.
        suggestion: the value handed to the subject for saving, or None.
        calls: passes that the worker ran, in order.
        log: lines that the subject logged, as (level, message).
        queries: device queries that were made, as (name, device index).
        raised: what the subject raised out of one of its functions, or None.
        where: "apply" or "save", where it was raised.
        killed: whether a simulated kill ended the process inside the subject.
        config_hash: `compute_hash()` before and after the subject's look-up.
        legal: the values that boots under the very same inputs have left to be applied.
        worker: the worker that booted, as the subject left it; None if it gave up before.
    """

    __slots__ = (
        "applied",
        "budget",
        "calls",
        "config_hash",
        "engine",
        "explicit",
        "free",
        "killed",
        "kv",
        "legal",
        "log",
        "measurable",
        "needed",
        "queries",
        "raised",
        "refused",
        "suggestion",
        "utilization",
        "where",
        "worker",
    )

    def __init__(self, engine: str, utilization: float, free: int, budget: int) -> None:
        """A boot that has only looked at its device so far."""
        self.engine = engine
        self.utilization = utilization
        self.free = free
        self.budget = budget
        self.refused = ""
        self.explicit: int | None = None
        self.applied: int | None = None
        self.measurable = 0
        self.kv = 0
        self.needed = 0
        self.suggestion: int | None = None
        self.calls: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.queries: list[tuple[str, int]] = []
        self.raised: Exception | None = None
        self.where = ""
        self.killed = False
        self.config_hash: tuple[str, str] = ("", "")
        self.legal: frozenset[int] = frozenset()
        self.worker: SimulatedWorker | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether the rank needed more than its device had free."""
        return self.needed > self.free

    @property
    def lines(self) -> list[str]:
        """The logged messages without their levels."""
        return [message for _, message in self.log]

    def __str__(self) -> str:
        """One clause of a story."""
        head = f"boot of {self.engine} at {self.utilization:g}"
        if self.refused:
            return f"{head} was refused by the worker ({self.refused})"
        if self.raised is not None:
            return f"{head} raised {type(self.raised).__name__} in {self.where}: {self.raised}"
        if self.killed:
            return f"{head} was killed while it saved {gib(self.suggestion)}"
        if self.applied is not None:
            end = f"applied {gib(self.applied)} (budget {gib(self.budget)}, free {gib(self.free)})"
        elif self.explicit is not None:
            end = f"used the explicit {gib(self.explicit)}"
        else:
            end = f"measured {gib(self.measurable)}, handed {gib(self.suggestion)} to be saved"
        if self.out_of_memory:
            end += f" and ran out of memory: needs {gib(self.needed)} of {gib(self.free)} free"
        return f"{head} {end}"
