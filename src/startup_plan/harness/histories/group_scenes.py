# SPDX-License-Identifier: Apache-2.0
"""Scenes of an engine of several ranks, of which one is not as its neighbours."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.outcome import words_of
from startup_plan.harness.world.together import Rank, boot_ranks
from startup_plan.support.plan_files import plans_below

from .scenes import tale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

ODD: Final = 1
"""The number, among all ranks, of the one to which things happen."""


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """How an engine is spread.

    Attributes:
        tensor: tensor-parallel ranks.
        pipeline: pipeline stages.
        replicas: data-parallel replicas.
        experts: whether the model is a mixture of experts.
        placement: device of each rank; rank i on device i if left out.
        per_host: ranks of one host, 0 for all; devices are counted anew on each host.
        shared: whether all ranks have one cache root, or one each.
        elastic: whether replicas may join (`enable_elastic_ep`).
    """

    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    experts: bool = False
    placement: tuple[int, ...] = ()
    per_host: int = 0
    shared: bool = False
    elastic: bool = False


SHAPES: Final[Mapping[str, Shape]] = {
    "two tensor-parallel ranks": Shape(tensor=2),
    "two pipeline stages of one rank": Shape(pipeline=2),
    "two pipeline stages of two ranks": Shape(tensor=2, pipeline=2),
    "two ranks on devices 3 and 1": Shape(tensor=2, placement=(3, 1)),
    "two tensor-parallel ranks on one disk": Shape(tensor=2, shared=True),
    "four ranks on two hosts with a disk each": Shape(tensor=4, per_host=2),
    "four ranks on two hosts with one disk": Shape(tensor=4, per_host=2, shared=True),
    "two replicas of a mixture of experts": Shape(replicas=2, experts=True),
    "two replicas of two ranks each, of a mixture of experts": Shape(
        tensor=2, replicas=2, experts=True
    ),
}
"""Engines whose ranks run collectives together while they profile."""


@final
class Group:
    """An engine of several ranks that boots again and again.

    Args:
        world: where.
        shape: how it is spread.
        replicas: how many replicas it has now, if not as many as its shape says.
    """

    def __init__(self, world: World, shape: Shape, replicas: int = 0) -> None:
        """Nothing has booted yet."""
        self.world = world
        self.shape = shape
        self.replicas = replicas or shape.replicas
        while len(world.devices) < max(4, self.size):
            world.devices.append(Device())
        self.engines = [self._engine(number) for number in range(self.replicas)]

    @property
    def each(self) -> int:
        """Ranks of a replica."""
        return self.shape.tensor * self.shape.pipeline

    @property
    def size(self) -> int:
        """Ranks of all replicas."""
        return self.each * self.replicas

    def _engine(self, number: int) -> Engine:
        shape = self.shape
        ranks = range(number * self.each, (number + 1) * self.each)
        placement = shape.placement or tuple(
            rank % shape.per_host if shape.per_host else rank for rank in ranks
        )
        several = self.replicas > 1
        engine = Engine(
            f"replica {number}" if several else "engine",
            world_size=self.each,
            placement=placement,
            replica=number,
            replicas=self.replicas,
        )
        parallel = engine.config.parallel_config
        parallel.tensor_parallel_size = shape.tensor
        parallel.pipeline_parallel_size = shape.pipeline
        parallel.is_moe_model = shape.experts
        if shape.elastic:
            parallel.enable_elastic_ep = parallel.enable_eplb = True
        if several and not shape.experts:
            # vLLM makes each replica of a dense model an engine of its own (v1/engine/core.py).
            parallel.data_parallel_size, parallel.data_parallel_rank = 1, 0
        if shape.per_host:
            parallel.nnodes = max(1, self.each // shape.per_host)
        engine.truth["shape"] = repr((shape, self.replicas))
        return engine

    def root(self, number: int) -> str:
        """The cache root of a rank."""
        if self.shape.shared:
            return self.world.cache_root
        host = number // self.shape.per_host if self.shape.per_host else number
        return os.path.join(self.world.cache_root, f"disk-{host}")

    def ranks(self, **of_the_odd_rank: Any) -> list[Rank]:
        """All ranks, with particulars of the one that is odd."""
        found = []
        for number in range(self.size):
            engine = self.engines[number // self.each]
            extra = of_the_odd_rank if number == ODD else {}
            given = {"cache_root": self.root(number), **extra}
            rank = number % self.each
            within = rank if self.shape.replicas > 1 and not self.shape.experts else number
            found.append(Rank(engine, rank, within, **given))
        return found

    def boot(self, **of_the_odd_rank: Any) -> list[BootResult]:
        """Boot all ranks."""
        return boot_ranks(self.world, self.ranks(**of_the_odd_rank))

    def settle(self, requirement: str) -> bool:
        """Boot twice: measure, save, and boot again.

        Returns:
            Whether the second boot applied on every rank.

        Raises:
            Violation: a boot raised or hung although all ranks are alike.
        """
        for _ in range(2):
            results = self.boot()
            judge_together(self.world, results, requirement)
        return all(result.applied for result in results)

    def plans_of(self, number: int) -> list[str]:
        """Paths of the plan files on the disk of a rank."""
        return plans_below(self.root(number))


def _missing(group: Group) -> dict[str, Any]:
    for path in group.plans_of(ODD):
        os.unlink(path)
    return {}


def _corrupt(group: Group) -> dict[str, Any]:
    for path in group.plans_of(ODD):
        with open(path, "r+b") as stream:
            stream.truncate(20)
    return {}


def _a_folder(group: Group) -> dict[str, Any]:
    for path in group.plans_of(ODD):
        os.unlink(path)
        os.mkdir(path)
    return {}


def _no_root(group: Group) -> dict[str, Any]:
    path = os.path.join(group.world.cache_root, "a file")
    with open(path, "wb"):
        pass
    return {"cache_root": path}


MISSES: Final[Mapping[str, Callable[[Group], dict[str, Any]]]] = {
    f"the plans on the disk of rank {ODD} are removed": _missing,
    f"the plans on the disk of rank {ODD} are cut short": _corrupt,
    f"rank {ODD} has another plan schema": lambda _: {"schema": 7919},
    f"one byte less is free for rank {ODD}": lambda _: {"held": 1},
}
"""What happens to one rank, which then has no plan to apply -> how."""

FAILURES: Final[Mapping[str, Callable[[Group], dict[str, Any]]]] = {
    f"the device of rank {ODD} does not answer": lambda _: {
        "broken": ("device_name", "device_total_memory", "device_capability")
    },
    f"the cache root of rank {ODD} is a file": _no_root,
    f"a folder lies at the path of rank {ODD}'s plan": _a_folder,
}
"""What makes the look-up of one rank fail -> how."""


def boot_after(group: Group, what: str) -> list[BootResult]:
    """Let one of `MISSES` or `FAILURES` happen, tell of it, and boot."""
    extra = {**MISSES, **FAILURES}[what](group)
    group.world.tell(what)
    return group.boot(**extra)


def judge_together(world: World, results: list[BootResult], requirement: str) -> None:
    """All ranks applied, or none did, and none waits or raises.

    Raises:
        Violation: otherwise.
    """
    if any(result.hung for result in results):
        raise Violation(requirement, tale(world, "the group hangs"))
    failed = [words_of(result.raised) for result in results if result.raised is not None]
    if failed:
        raise Violation(requirement, tale(world, f"a rank fails: {failed[0]}"))
    applied = [result.applied is not None for result in results]
    if any(applied) and not all(applied):
        raise Violation(requirement, tale(world, "some ranks applied and others profiled"))
