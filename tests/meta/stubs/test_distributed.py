# SPDX-License-Identifier: Apache-2.0
"""Collectives of simulated ranks, beside those of torch over gloo."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import warnings
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.stubs import distributed, tensors
from startup_plan.harness.stubs.process_groups import GLOO, Hall, LateError, Layout, Seat, sit
from startup_plan.harness.stubs.unknown import UnknownNameError, unknown_names
from startup_plan.harness.stubs.worker import StubDevice
from startup_plan.harness.world.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Body = Callable[[Any, Any, Any, int], Any]

TORCH: Final = SimpleNamespace(**tensors.SURFACE)
DIST: Final = distributed.DistributedModule("torch.distributed")


def _all_reduce(operation: str) -> Body:
    def body(torch: Any, dist: Any, group: Any, rank: int) -> Any:
        mine = torch.tensor([rank + 1, 5 - rank])
        dist.all_reduce(mine, op=getattr(dist.ReduceOp, operation), group=group)
        return mine.tolist()

    return body


def _all_gather(torch: Any, dist: Any, group: Any, rank: int) -> Any:
    everyone = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size(group))]
    work = dist.all_gather(everyone, torch.tensor([rank + 7]), group=group, async_op=True)
    work.wait()
    return [each.tolist() for each in everyone]


def _into_tensor(torch: Any, dist: Any, group: Any, rank: int) -> Any:
    everyone = torch.zeros(4, dtype=torch.int64)
    dist.all_gather_into_tensor(everyone, torch.tensor([rank, 10 + rank]), group=group)
    return everyone.tolist()


def _gather(torch: Any, dist: Any, group: Any, rank: int) -> Any:
    everyone = [torch.tensor(-1) for _ in range(2)] if rank == 1 else None
    dist.gather(torch.tensor(rank), everyone, dst=1, group=group)
    return everyone and [each.item() for each in everyone]


def _reduce(torch: Any, dist: Any, group: Any, rank: int) -> Any:
    mine = torch.tensor(rank + 1)
    dist.reduce(mine, dst=0, group=group)
    # What torch leaves with the others is not defined.
    return mine.item() if rank == 0 else None


def _broadcast(torch: Any, dist: Any, group: Any, rank: int) -> Any:
    mine = torch.tensor([rank, rank + 3])
    dist.broadcast(mine, src=1, group=group)
    return mine.tolist()


def _objects(_: Any, dist: Any, group: Any, rank: int) -> Any:
    everyone: list[Any] = [None, None]
    dist.all_gather_object(everyone, {"rank": rank}, group=group)
    said = [(rank, None), "same"]
    dist.broadcast_object_list(said, src=0, group=group)
    gathered: list[Any] | None = [None, None] if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0, group=group)
    return everyone, said, gathered


def _letters(torch: Any, dist: Any, group: Any, rank: int) -> Any:
    mine = torch.tensor([rank + 1])
    if rank == 0:
        dist.send(mine, dst=1, group=group)
        dist.recv(mine, src=1, group=group)
    else:
        got = torch.tensor([0])
        dist.recv(got, src=0, group=group)
        dist.send(got * 10, dst=0, group=group)
    return mine.tolist()


def _names(_: Any, dist: Any, group: Any, __: int) -> Any:
    dist.barrier(group=group)
    dist.monitored_barrier(group=group)
    return (
        dist.get_rank(group),
        dist.get_world_size(group),
        dist.get_backend(group),
        dist.get_process_group_ranks(group),
        dist.get_global_rank(group, 1),
        dist.get_group_rank(group, 1),
    )


SCENES: Final[dict[str, Body]] = {
    **{f"all_reduce {name}": _all_reduce(name) for name in ("SUM", "PRODUCT", "MIN", "MAX", "BOR")},
    "all_gather": _all_gather,
    "all_gather_into_tensor": _into_tensor,
    "gather": _gather,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "objects": _objects,
    "letters": _letters,
    "names": _names,
}
"""What each of two ranks does, and what it ends up with."""


class Pair:
    """Two simulated ranks that meet.

    Attributes:
        found: rank -> what its body came back with.
        hung: what each waited for in vain.
    """

    def __init__(self, *bodies: Body, backend: str = GLOO) -> None:
        """Run a body for each rank."""
        hall = Hall(Layout(tensor=2))
        turns = Turns(self._hold)
        self._seats = [Seat(hall, rank, rank, turns.wait) for rank in range(2)]
        self.found: dict[int, Any] = {}

        def live(rank: int) -> None:
            self.found[rank] = bodies[rank](TORCH, DIST, hall.group("world", rank, backend), rank)

        self.hung = turns.run([partial(live, rank) for rank in range(2)])

    @contextlib.contextmanager
    def _hold(self, number: int) -> Iterator[None]:
        sit(self._seats[number])
        try:
            yield
        finally:
            sit(None)


def _real_rank(rank: int, store: str, answers: Any) -> None:
    # Newer releases of torch deprecate names that older ones have alone.
    warnings.simplefilter("ignore", FutureWarning)
    torch = importlib.import_module("torch")
    dist = importlib.import_module("torch.distributed")
    dist.init_process_group(
        GLOO, f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    group = dist.group.WORLD
    answers.put((rank, {name: body(torch, dist, group, rank) for name, body in SCENES.items()}))
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """What two processes of torch end up with: rank -> scene -> result."""
    store: Path = tmp_path_factory.mktemp("gloo") / "store"
    context = multiprocessing.get_context("fork")
    answers: Any = context.Queue()
    ranks = [
        context.Process(target=_real_rank, args=(rank, str(store), answers), daemon=True)
        for rank in range(2)
    ]
    for each in ranks:
        each.start()
    try:
        return dict(answers.get(timeout=20) for _ in ranks)
    finally:
        for each in ranks:
            each.join(timeout=30)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", SCENES)
def test_a_collective_gives_what_gloo_gives(name: str, real: dict[int, dict[str, Any]]) -> None:
    """Both ranks end up with what two processes of torch end up with."""
    pair = Pair(SCENES[name], SCENES[name])

    assert (pair.hung, pair.found) == (["", ""], {rank: real[rank][name] for rank in range(2)})


def test_different_collectives_never_end() -> None:
    """Ranks that call different collectives wait for ever, and each says for what."""
    pair = Pair(_broadcast, _all_gather)

    assert (pair.hung, pair.found) == (["broadcast", "all_gather"], {})


def test_a_rank_that_does_not_come_is_waited_for() -> None:
    """A rank hangs whose neighbour takes no part; the neighbour comes to its end."""
    pair = Pair(_all_gather, lambda *_: "booted")

    assert (pair.hung, pair.found) == (["all_gather", ""], {1: "booted"})


def test_a_limit_passes_in_simulated_time() -> None:
    """Who waits with a limit is told who did not come, however long the limit."""

    def late(torch: Any, dist: Any, group: Any, rank: int) -> Any:
        try:
            everyone = [torch.tensor(0), torch.tensor(0)]
            work = dist.all_gather(everyone, torch.tensor(rank), group=group, async_op=True)
            work.wait(timedelta(seconds=300))
        except RuntimeError as error:
            return error

    pair = Pair(late, lambda *_: None)

    assert (pair.hung, type(pair.found[0])) == (["", ""], LateError)
    assert "300000ms" in str(pair.found[0])
    assert "Ranks 1 failed" in str(pair.found[0])


def _raised(body: Body, backend: str) -> Any:
    def caught(*given: Any) -> Any:
        with pytest.raises(Exception) as found:  # noqa: PT011  # which one is asserted
            body(*given)
        return found.type

    return Pair(caught, caught, backend=backend).found


def test_a_tensor_on_the_wrong_device_raises() -> None:
    """NCCL takes no tensor of the host, and gloo none of a device unless every torch's does."""
    unknown_names.clear()

    def on_device(_: Any, dist: Any, group: Any, rank: int) -> None:
        mine = tensors.Tensor([rank], (1,), tensors.DTYPES["int64"], StubDevice("cuda", rank))
        dist.all_gather([mine, mine], mine, group=group)

    assert _raised(_all_gather, "nccl") == {0: RuntimeError, 1: RuntimeError}
    assert unknown_names == []
    assert _raised(on_device, GLOO) == {0: UnknownNameError, 1: UnknownNameError}
    assert len(unknown_names) == 2
    unknown_names.clear()


def _alone(body: Body) -> Any:
    hall = Hall(Layout(tensor=2), alone=True)
    sit(Seat(hall, 0, 0, lambda until, *_: until()))
    try:
        return body(TORCH, DIST, hall.group("world", 0, GLOO), 0)
    finally:
        sit(None)


def test_a_rank_alone_meets_ranks_in_its_position() -> None:
    """What depends on every rank alike is answered for a rank that boots alone."""
    assert _alone(_all_gather) == [[7], [7]]


@pytest.mark.parametrize(
    "body",
    [_broadcast, _letters, lambda _, dist, *__: dist.all_to_all([], [])],
    ids=["broadcast", "letters", "all_to_all"],
)
def test_what_cannot_be_answered_is_noted(body: Body) -> None:
    """What only another rank knows, or nobody simulates, is refused by name and blames nobody."""
    unknown_names.clear()
    with pytest.raises(UnknownNameError):
        _alone(body)
    noted = len(unknown_names)
    unknown_names.clear()

    assert noted == 1
