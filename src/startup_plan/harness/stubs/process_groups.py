# SPDX-License-Identifier: Apache-2.0
"""Process groups of simulated ranks: who meets whom, and what each brought.

A `Hall` is where the ranks of one engine meet. Each rank has a `Seat` in it; the one whose process
runs is `seated()`. A rank that boots alone, for a test that looks at one process only, meets ranks
that are in its own position: whatever it brings, they bring as well.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from .state import active

if TYPE_CHECKING:
    from collections.abc import Callable

GLOO: Final = "gloo"


def device_backend() -> str:
    """The communication backend of the devices of the active simulation."""
    backend = active().runtime.backend
    return backend.communicator or backend.name


class LateError(RuntimeError):
    """A collective ran out of the time that its caller had given it, in torch's words."""


@final
@dataclass(slots=True)
class Layout:
    """How the ranks of an engine are laid out: replicas of stages of shards, as vLLM does.

    Attributes:
        tensor: ranks that share a layer, context-parallel ones included.
        pipeline: stages.
        replicas: data-parallel replicas that are part of the model.
        experts: whether the model is a mixture of experts.
        elastic: whether replicas may join and leave (`enable_elastic_ep`); torch's own default
            group is then that of one replica.
    """

    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    experts: bool = False
    elastic: bool = False

    @classmethod
    def of(cls, parallel: Any) -> Layout:
        """What a `ParallelConfig` asks for."""
        world, pipeline = parallel.world_size, parallel.pipeline_parallel_size
        if world % pipeline or world < pipeline:
            pipeline = 1
        experts = parallel.is_moe_model is not False and parallel.data_parallel_size > 1
        return cls(
            world // pipeline,
            pipeline,
            parallel.data_parallel_size,
            bool(parallel.is_moe_model) or experts,
            bool(parallel.enable_elastic_ep),
        )

    @property
    def each(self) -> int:
        """Ranks of one replica."""
        return self.tensor * self.pipeline

    @property
    def all(self) -> int:
        """Ranks of all replicas."""
        return self.each * self.replicas

    def members(self, name: str, rank: int) -> tuple[int, ...]:
        """The ranks of that group of vLLM's ("world", "tp", "pp", "dp", "ep") with `rank` in it."""
        replica, within = divmod(rank, self.each)
        stage, shard = divmod(within, self.tensor)
        if name == "world":
            return tuple(range(self.all))
        if name == "replica":
            return tuple(range(replica * self.each, (replica + 1) * self.each))
        if name == "tp":
            start = rank - shard
            return tuple(range(start, start + self.tensor))
        if name == "pp":
            first = replica * self.each + shard
            return tuple(range(first, first + self.each, self.tensor))
        if name == "dp":
            return tuple(range(within, self.all, self.each))
        starts = range(stage * self.tensor, self.all, self.each)
        return tuple(start + index for start in starts for index in range(self.tensor))


@final
@dataclass(slots=True)
class Round:
    """One collective of a group.

    Attributes:
        kind: which, with its root, its operation and the like.
        brought: what each rank has brought so far.
        broken: whether its ranks called different collectives, which never end.
    """

    kind: tuple[Any, ...]
    brought: dict[int, Any] = field(default_factory=dict)
    broken: bool = False


@final
class Group:
    """`ProcessGroup`: ranks that run collectives with each other.

    Args:
        hall: where they meet.
        ranks: their numbers in the hall, in the order of the group.
        backend: "gloo", or that of the devices.
        stateless: whether vLLM made it beside torch, which then cannot translate its ranks.
        base: the number in the hall of the rank that torch calls 0.
    """

    __slots__ = (
        "_next", "_rounds", "backend", "base", "hall", "letters", "made", "ranks", "stateless",
    )  # fmt: skip

    def __init__(
        self,
        hall: Hall,
        ranks: tuple[int, ...],
        backend: str,
        *,
        stateless: bool = False,
        base: int = 0,
    ) -> None:
        """Nobody has come yet."""
        self.hall = hall
        self.ranks = ranks
        self.backend = backend
        self.stateless = stateless
        self.base = base
        self.letters: dict[tuple[int, int, int], list[Any]] = {}
        self.made: dict[int, Group] = {}
        self._rounds: list[Round] = []
        self._next = dict.fromkeys(ranks, 0)

    def size(self) -> int:
        """How many ranks it has; as `ProcessGroup.size`."""
        return len(self.ranks)

    def rank(self) -> int:
        """This rank's place in it; as `ProcessGroup.rank`."""
        return self.ranks.index(seat().rank)

    def name(self) -> str:
        """The backend's name; as `ProcessGroup.name`."""
        return self.backend

    def bring(self, kind: tuple[Any, ...], offer: Any) -> Round:
        """Take part in the group's next collective; what is offered is copied.

        Args:
            kind: which collective, with everything that its ranks must agree on.
            offer: what this rank brings.
        """
        me = seat().rank
        number, self._next[me] = self._next[me], self._next[me] + 1
        if self.hall.alone:
            return Round(kind, {rank: copy.deepcopy(offer) for rank in self.ranks})
        if number == len(self._rounds):
            self._rounds.append(Round(kind))
        found = self._rounds[number]
        found.broken |= found.kind != kind
        found.brought[me] = copy.deepcopy(offer)
        return found

    def is_complete(self, done: Round) -> bool:
        """Whether all have come, to the same collective."""
        return not done.broken and len(done.brought) == len(self.ranks)

    def missing(self, done: Round) -> list[int]:
        """Places in the group of the ranks that have not come."""
        return [place for place, rank in enumerate(self.ranks) if rank not in done.brought]


@final
class Hall:
    """Where the ranks of one engine meet.

    Args:
        layout: how they are laid out.
        alone: whether only one of them boots, and the others are in its position.

    Attributes:
        came: pass of the model runner -> the ranks that have come to it.
    """

    def __init__(self, layout: Layout, *, alone: bool = False) -> None:
        """No group is made before somebody asks for it."""
        self.layout = layout
        self.alone = alone
        self.came: dict[str, set[int]] = {}
        self._groups: dict[tuple[str, tuple[int, ...], str], Group] = {}

    def group(self, name: str, rank: int, backend: str) -> Group:
        """The group of that name that `rank` is in; the same object for all its ranks."""
        layout = self.layout
        ranks = layout.members(name, rank)
        stateless = layout.elastic and name in {"world", "dp", "ep"}
        base = layout.members("replica", rank)[0] if layout.elastic else 0
        key = (name, ranks, backend)
        if key not in self._groups:
            self._groups[key] = Group(self, ranks, backend, stateless=stateless, base=base)
        return self._groups[key]


@final
class Seat:
    """One rank's place in its hall.

    Args:
        hall: where.
        rank: its number among all ranks.
        index: its device.
        wait: called as (until, seconds, what): comes back once `until()` is true, with True, or
            after so many seconds of simulated time, with False; `what` is for stories. A rank that
            boots alone never waits.
    """

    __slots__ = ("hall", "index", "rank", "wait")

    def __init__(
        self,
        hall: Hall,
        rank: int,
        index: int,
        wait: Callable[[Callable[[], bool], float | None, str], bool],
    ) -> None:
        """A rank that has sat down."""
        self.hall = hall
        self.rank = rank
        self.index = index
        self.wait = wait

    def default(self) -> Group:
        """Torch's default group, whose backend is that of the devices, as in vLLM."""
        name = "replica" if self.hall.layout.elastic else "world"
        return self.hall.group(name, self.rank, device_backend())


def _nobody_waits(until: Callable[[], bool], seconds: float | None, what: str) -> bool:
    del seconds, what
    return until()


def seat_alone(parallel: Any, rank: int, index: int) -> Seat:
    """The seat of a rank that boots while nobody looks at its neighbours."""
    layout = Layout.of(parallel)
    replica = parallel.data_parallel_rank if layout.replicas > 1 else 0
    number = min(replica * layout.each + rank, layout.all - 1)
    return Seat(Hall(layout, alone=True), number, index, _nobody_waits)


_seated: Seat | None = None


def sit(found: Seat | None) -> None:
    """Make `found` the rank whose process runs; None is a process that has made no group."""
    global _seated  # noqa: PLW0603  # as the active simulation: one process runs at a time
    _seated = found


def seated() -> Seat | None:
    """The rank whose process runs, None where it has made no group."""
    return _seated


def seat() -> Seat:
    """The rank whose process runs.

    Raises:
        ValueError: it has made no group, in torch's words.
    """
    if _seated is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _seated
