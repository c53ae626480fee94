# SPDX-License-Identifier: Apache-2.0
"""Scenes on vLLM's own worker: a group of ranks of which one is not as its neighbours.

Every rank has a cache root of its own, as ranks in containers have, so that something can happen to
the plan of one rank and nobody has to know which file of a folder belongs to whom.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.contract.violation import Violation
from startup_plan.support.plan_files import plans_below

from .order import BootOrder, RankOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from startup_plan.harness.world.outcome import BootResult

    from .host import RealHost

ODD: Final = 1
"""The rank to which things happen."""

SHAPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "two tensor-parallel ranks": {"tensor": 2},
    "two pipeline stages of two ranks": {"tensor": 2, "pipeline": 2},
    "two replicas of a mixture of experts": {"replicas": 2, "model": "mixture-of-experts"},
}
"""Groups whose ranks run collectives together while they profile."""


@final
class Group:
    """An engine of several ranks that boots again and again.

    Args:
        host: where.
        shape: one of `SHAPES`.
    """

    def __init__(self, host: RealHost, shape: str) -> None:
        """Nothing has booted yet."""
        self.host = host
        self._parts = SHAPES[shape]
        host.tell(shape)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.order().size

    def root(self, rank: int) -> str:
        """The cache root of a rank."""
        return os.path.join(self.host.cache_root, f"rank-{rank}")

    def order(self, **of_the_odd_rank: Any) -> BootOrder:
        """A boot of the engine, with particulars of the rank `ODD`."""
        order = self.host.order(**self._parts)
        for rank in range(order.size):
            extra = of_the_odd_rank if rank == ODD else {}
            order.ranks[rank] = RankOrder(**{"cache_root": self.root(rank), **extra})
        return order

    def boot(self, **of_the_odd_rank: Any) -> list[BootResult]:
        """Boot it."""
        return self.host.boot(self.order(**of_the_odd_rank))

    def settle(self, requirement: str) -> bool:
        """Boot twice: measure, save, and boot again.

        Returns:
            Whether the second boot applied on every rank.

        Raises:
            Violation: a boot raised or hung although all ranks are alike.
        """
        self.host.must_boot(self.order(), requirement)
        second = self.host.must_boot(self.order(), requirement)
        return all(report.applied for report in second)

    def plans_of(self, rank: int) -> list[str]:
        """Paths of the plan files of a rank."""
        return plans_below(self.root(rank))


def _missing(group: Group) -> dict[str, Any]:
    for path in group.plans_of(ODD):
        os.unlink(path)
    return {}


def _corrupt(group: Group) -> dict[str, Any]:
    for path in group.plans_of(ODD):
        with open(path, "r+b") as stream:
            stream.truncate(20)
    return {}


def _other_version(_: Group) -> dict[str, Any]:
    return {"other_schema": True}


def _one_byte_less(_: Group) -> dict[str, Any]:
    return {"held": 1}


def _no_identity(_: Group) -> dict[str, Any]:
    return {"broken": ("device_name", "device_total_memory", "device_capability")}


def _no_root(group: Group) -> dict[str, Any]:
    path = os.path.join(group.host.cache_root, "a file")
    with open(path, "wb"):
        pass
    return {"cache_root": path}


def _a_folder(group: Group) -> dict[str, Any]:
    for path in group.plans_of(ODD):
        os.unlink(path)
        os.mkdir(path)
    return {}


MISSES: Final[Mapping[str, Callable[[Group], dict[str, Any]]]] = {
    f"the plan of rank {ODD} is removed": _missing,
    f"the plan of rank {ODD} is cut short": _corrupt,
    f"rank {ODD} has another plan schema": _other_version,
    f"one byte less is free for rank {ODD}": _one_byte_less,
}
"""What happens to one rank, which then has no plan to apply -> how."""

FAILURES: Final[Mapping[str, Callable[[Group], dict[str, Any]]]] = {
    f"the device of rank {ODD} does not answer": _no_identity,
    f"the cache root of rank {ODD} is a file": _no_root,
    f"a folder lies at the path of rank {ODD}'s plan": _a_folder,
}
"""What makes the look-up of one rank fail -> how."""


def boot_after(group: Group, what: str) -> list[BootResult]:
    """Let one of `MISSES` or `FAILURES` happen, tell of it, and boot."""
    extra = {**MISSES, **FAILURES}[what](group)
    group.host.tell(what)
    return group.boot(**extra)


def judge_together(group: Group, reports: list[BootResult], requirement: str) -> None:
    """All ranks applied, or none did, and none waits or raises.

    Raises:
        Violation: otherwise.
    """
    tale = group.host.tale
    if any(report.hung for report in reports):
        raise Violation(requirement, tale("the group hangs"))
    if any(report.raised is not None for report in reports):
        raise Violation(requirement, tale("a rank fails"))
    applied = [report.applied is not None for report in reports]
    if any(applied) and not all(applied):
        raise Violation(requirement, tale("some ranks applied and others profiled"))
