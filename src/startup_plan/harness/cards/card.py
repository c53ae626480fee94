# SPDX-License-Identifier: Apache-2.0
"""A card on which small engines boot beside co-tenants: what scenarios are written against.

Three cards keep this interface: a simulated device (`simulated`), real processes that share a
made-up amount of the host's memory, and real processes on a CUDA device (`processes`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from startup_plan.harness.stubs.units import GIB, gib

from .order import Order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from startup_plan.harness.world.outcome import BootResult

WEIGHTS: Final = 1 / 16
ACTIVATIONS: Final = 1 / 20
GRAPHS: Final = 1 / 64
"""What an engine takes of its card, so that the same boots run on any card."""

LAST: Final = 2 * GIB
"""What a co-tenant leaves free on a card; bytes."""


_FIGURES: Final = (
    "utilization", "free", "total", "budget", "consumed", "headroom", "estimate", "graphs",
    "applied", "kv", "written", "suggestion",
)  # fmt: skip
"""What the report keeps of a boot."""


class CardBusyError(RuntimeError):
    """The card is too small, too busy, or not steady enough for a scenario; with figures."""


class Boot(Protocol):
    """An engine that is booting or serving, in a process of its own."""

    result: BootResult

    def advance(self, stage: str) -> BootResult:
        """Go on up to `stage`, or as far as it comes; what is known then."""

    def end(self) -> None:
        """End it in an orderly way; its memory is free again."""

    def kill(self) -> None:
        """Kill it outright; its memory may not be free yet (`Card.settle`)."""


class Tenant(Protocol):
    """A process that holds memory and does nothing."""

    held: int

    def hold(self, size: int) -> None:
        """Hold exactly `size` bytes, more or less than before."""

    def end(self) -> None:
        """Let go and end."""


class Card(ABC):
    """One host with cards and one disk.

    Args:
        root: an empty folder; the cache root lies inside.

    Attributes:
        kind: "simulated", "host" or "cuda".
        name: product name of device 0.
        total: memory of device 0, in bytes; likewise `granule`, the smallest step in which it
            gives memory, `buffer`, the worker's safety buffer, and `last`, what a co-tenant
            leaves free.
        devices: how many devices there are.
        cache_root: `VLLM_CACHE_ROOT` of all engines.
        story: what has happened, one clause each.
        figures: every measured figure, for the report.
        boots: how many engines have booted.
    """

    kind: ClassVar[str]
    name: str
    total: int
    granule: int
    buffer: int
    last: int
    devices: int

    def __init__(self, root: Path | str) -> None:
        """Nothing has happened."""
        self._root = os.fspath(root)
        self.cache_root = os.path.join(self._root, "cache")
        self.story: list[str] = []
        self.figures: list[dict[str, Any]] = []
        self.boots = 0
        # Until the card is there; what has measured nothing is reported too.
        self.name, self.total, self.granule = "", 0, 1

    @abstractmethod
    def free(self, device: int = 0) -> int:
        """Free bytes of a device as seen by somebody who is no engine."""

    @abstractmethod
    def used(self, device: int = 0) -> int:
        """Bytes in use on a device, in the words of whatever watches it from outside."""

    @abstractmethod
    def start(self, order: Order, until: str) -> Boot:
        """Start an engine in a new process and let it come as far as `until`."""

    @abstractmethod
    def _tenant(self, device: int) -> Tenant:
        """A co-tenant that holds nothing yet."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until what ended or was killed has given all of its memory back."""

    def order(self, **parts: Any) -> Order:
        """An order for an engine of the usual size on this card; `parts` as `Order` names them."""
        return Order(
            **{
                "cache_root": self.cache_root,
                "weights": self.share(WEIGHTS),
                "activations": self.share(ACTIVATIONS),
                **parts,
            }
        )

    def share(self, part: float) -> int:
        """A part of the card, in whole granules."""
        return int(self.total * part) // self.granule * self.granule

    def boot(self, order: Order) -> BootResult:
        """Boot an engine, let it serve, end it, and tell of it."""
        boot = self.start(order, "served")
        boot.end()
        self.settle()
        return self.tell(boot)

    def tell(self, boot: Boot) -> BootResult:
        """Add a boot to the story and to the figures."""
        self.boots += 1
        result = boot.result
        self.story.append(str(result))
        self.note(str(result), **{name: getattr(result, name) for name in _FIGURES})
        return result

    def note(self, what: str, **figures: object) -> None:
        """Keep measured figures, in bytes unless their names say otherwise."""
        self.figures.append({"what": what, **figures})

    def tenant(self, size: int, device: int = 0) -> Tenant:
        """A co-tenant that holds `size` bytes.

        Raises:
            CardBusyError: it would take the last bytes of the card.
        """
        tenant = self._tenant(device)
        self.hold(tenant, size, device)
        return tenant

    def hold(self, tenant: Tenant, size: int, device: int = 0) -> None:
        """Let a co-tenant hold exactly `size` bytes, and tell of it.

        Raises:
            CardBusyError: it would take the last bytes of the card.
        """
        free = self.free(device)
        if free - (size - tenant.held) < self.last:
            raise CardBusyError(
                f"a co-tenant of {gib(size)} would leave less than {gib(self.last)} of "
                f"{gib(free)} free"
            )
        tenant.hold(size)
        self.story.append(f"a co-tenant holds {gib(size)}")

    def leave(self, tenant: Tenant) -> None:
        """Let a co-tenant end, and tell of it."""
        tenant.end()
        self.settle()
        self.story.append("the co-tenant leaves")

    def plans(self) -> Mapping[str, tuple[int, int, bytes]]:
        """Everything below the cache root: path -> (inode, time of change in ns, content)."""
        found = {}
        for path in sorted(Path(self.cache_root).rglob("*")):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            # A folder changes when something in it does, and that is seen there.
            when = status.st_mtime_ns if path.is_file() else 0
            found[os.path.relpath(path, self.cache_root)] = (status.st_ino, when, content)
        return found

    def tale(self, verdict: str) -> str:
        """What has happened, and what is wrong with it."""
        return "; ".join([*self.story, verdict])
