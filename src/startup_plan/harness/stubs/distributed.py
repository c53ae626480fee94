# SPDX-License-Identifier: Apache-2.0
"""`torch.distributed`: collectives of simulated ranks, by `process_groups`.

A collective on a tensor that its backend does not serve raises as torch's does. What this cannot
answer is refused by name, so that a vote in that shape is undecided.
"""

from __future__ import annotations

import functools
import operator
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, final

from .process_groups import GLOO, Group, LateError, Round, device_backend, seat, seated
from .tensors import Tensor, stack
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

_OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "SUM": operator.add,
    "PRODUCT": operator.mul,
    "MIN": min,
    "MAX": max,
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
}
_ON_DEVICES_TOO: Final = frozenset({"all_reduce", "broadcast"})
"""What gloo does with CUDA tensors in every build of torch."""

_ELSEWHERE: Final = object()
"""What a rank gets that is not in the group it has made."""


def _group(given: Any) -> Group:
    group = seat().default() if given is None else given
    if group is _ELSEWHERE or not isinstance(group, Group):
        raise ValueError("Invalid process group specified")
    return group


def _accepts(group: Group, call: str, *tensors: Tensor) -> None:
    """See that the group's backend serves these tensors.

    Raises:
        RuntimeError: it does not, in torch's words.
    """
    for each in tensors:
        if not isinstance(each, Tensor):
            raise TypeError(
                f"Invalid function argument. Expected parameter of type torch.Tensor "
                f"in {call}, got {type(each).__name__}"
            )
        kind = each.device.type
        if group.backend == GLOO:
            if kind == "cpu" or (kind == "cuda" and call in _ON_DEVICES_TOO):
                continue
            if kind == "cuda":
                raise refuse("torch.distributed", f"{call} of gloo on a device tensor")
        elif kind != "cpu":
            continue
        raise RuntimeError(f"No backend type associated with device type {kind}")


def _place(group: Group, rank: int | None, in_group: int | None, default: int = 0) -> int:
    """The place in the group of a rank that is given as torch counts, or as the group does."""
    if in_group is not None:
        return in_group
    number = default if rank is None else rank
    if group.stateless:
        raise ValueError(f"Group {group.name()} is not registered, please create group first")
    if number + group.base not in group.ranks:
        raise ValueError(f"Global rank {number} is not part of group")
    return group.ranks.index(number + group.base)


@final
class Work:
    """A collective that was begun."""

    __slots__ = ("_done", "_finish", "_group", "_seconds", "_what")

    def __init__(
        self,
        group: Group,
        done: Round,
        what: str,
        finish: Callable[[list[Any]], Any],
        seconds: float | None,
    ) -> None:
        """`what` was called; `finish` takes what all ranks brought, in the order of the group."""
        self._what = what
        self._group = group
        self._done = done
        self._finish: Callable[[list[Any]], Any] | None = finish
        self._seconds = seconds

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the other ranks.

        Raises:
            LateError: they did not come in the time that was given.
        """
        seconds = self._seconds if timeout is None else timeout.total_seconds()
        group, done, what = self._group, self._done, self._what
        if not seat().wait(lambda: group.is_complete(done), seconds, what):
            milliseconds = int((seconds or 0) * 1000)
            raise LateError(
                f"[gloo] Timed out waiting {milliseconds}ms for {what} operation to complete; "
                f"Ranks {', '.join(map(str, group.missing(done)))} failed to come"
            )
        if self._finish is not None:
            finish, self._finish = self._finish, None
            finish([done.brought[rank] for rank in group.ranks])
        return True

    def is_completed(self) -> bool:
        """Whether all have come."""
        return self._group.is_complete(self._done)

    def is_success(self) -> bool:
        """As `is_completed`."""
        return self.is_completed()


def _run(
    group: Group,
    kind: tuple[Any, ...],
    offer: Any,
    finish: Callable[[list[Any]], Any],
    *,
    async_op: bool = False,
    seconds: float | None = None,
) -> Work | None:
    work = Work(group, group.bring(kind, offer), str(kind[0]), finish, seconds)
    if async_op:
        return work
    work.wait()
    return None


def _unless_alone(group: Group, place: int) -> None:
    """A rank that boots alone cannot know what another rank would tell it."""
    if group.hall.alone and place != group.rank():
        raise refuse("torch.distributed", "what another rank says, in a boot of one rank alone")


def _reduced(op: Any, brought: Sequence[list[Any]]) -> list[Any]:
    name = str(op)
    if name == "AVG":
        return [sum(column) / len(brought) for column in zip(*brought, strict=True)]
    if name not in _OPERATIONS:
        raise refuse("torch.distributed.ReduceOp", name)
    return [functools.reduce(_OPERATIONS[name], column) for column in zip(*brought, strict=True)]


def all_reduce(tensor: Tensor, op: Any = "SUM", group: Any = None, async_op: bool = False) -> Any:
    """Leave in every rank's tensor what the operation makes of all."""
    found = _group(group)
    _accepts(found, "all_reduce", tensor)

    def finish(brought: list[Any]) -> None:
        tensor.values[:] = [tensor.dtype.of(value) for value in _reduced(op, brought)]

    kind = ("all_reduce", str(op), len(tensor.values))
    return _run(found, kind, tensor.values, finish, async_op=async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = "SUM",
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """As `all_reduce`, for one rank."""
    found = _group(group)
    _accepts(found, "reduce", tensor)
    place = _place(found, dst, group_dst)

    def finish(brought: list[Any]) -> None:
        if found.rank() == place:
            tensor.values[:] = [tensor.dtype.of(value) for value in _reduced(op, brought)]

    kind = ("reduce", str(op), place, len(tensor.values))
    return _run(found, kind, tensor.values, finish, async_op=async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """Give every rank the tensors of all."""
    found = _group(group)
    _accepts(found, "all_gather", tensor, *tensor_list)
    if len(tensor_list) != found.size():
        raise ValueError("ProcessGroup::allgather: invalid output tensor list")

    def finish(brought: list[Any]) -> None:
        for place, values in zip(tensor_list, brought, strict=True):
            place.copy_(Tensor(values, (len(values),), place.dtype, place.device))

    kind = ("all_gather", len(tensor.values))
    return _run(found, kind, tensor.values, finish, async_op=async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """The same, one after the other in one tensor."""
    found = _group(group)
    _accepts(found, "all_gather", output_tensor, input_tensor)
    if output_tensor.numel() != input_tensor.numel() * found.size():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")

    def finish(brought: list[Any]) -> None:
        output_tensor.values[:] = [value for values in brought for value in values]

    kind = ("all_gather_into_tensor", len(input_tensor.values))
    return _run(found, kind, input_tensor.values, finish, async_op=async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Give one rank the tensors of all."""
    found = _group(group)
    _accepts(found, "gather", tensor, *(gather_list or ()))
    place = _place(found, dst, group_dst)

    def finish(brought: list[Any]) -> None:
        if found.rank() == place:
            for into, values in zip(gather_list or (), brought, strict=True):
                into.copy_(Tensor(values, (len(values),), into.dtype, into.device))

    kind = ("gather", place, len(tensor.values))
    return _run(found, kind, tensor.values, finish, async_op=async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give every rank the tensor of one."""
    found = _group(group)
    _accepts(found, "broadcast", tensor)
    place = _place(found, src, group_src)
    _unless_alone(found, place)

    def finish(brought: list[Any]) -> None:
        tensor.values[:] = [tensor.dtype.of(value) for value in brought[place]]

    kind = ("broadcast", place, len(tensor.values))
    return _run(found, kind, tensor.values, finish, async_op=async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give every rank what all ranks have, whatever it is."""

    def finish(brought: list[Any]) -> None:
        object_list[:] = brought

    _run(_group(group), ("all_gather_object",), obj, finish)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Give one rank what all ranks have."""
    found = _group(group)
    place = _place(found, dst, group_dst)

    def finish(brought: list[Any]) -> None:
        if found.rank() == place and object_gather_list is not None:
            object_gather_list[:] = brought

    _run(found, ("gather_object", place), obj, finish)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give every rank the list of one."""
    del device
    found = _group(group)
    place = _place(found, src, group_src)
    _unless_alone(found, place)

    def finish(brought: list[Any]) -> None:
        object_list[:] = brought[place]

    kind = ("broadcast_object_list", place, len(object_list))
    _run(found, kind, object_list, finish)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait until all are here."""
    del device_ids
    return _run(_group(group), ("barrier",), None, lambda _: None, async_op=async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """The same, with an error that names who did not come."""
    del wait_all_ranks
    found = _group(group)
    if found.backend != GLOO:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    seconds = None if timeout is None else timeout.total_seconds()
    _run(found, ("monitored_barrier",), None, lambda _: None, seconds=seconds)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send to one rank, which need not be there yet."""
    found = _group(group)
    _accepts(found, "send", tensor)
    place = _place(found, dst, group_dst)
    found.letters.setdefault((found.rank(), place, tag), []).append(list(tensor.values))


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Wait for what one rank sends."""
    found = _group(group)
    _accepts(found, "recv", tensor)
    if src is None and group_src is None:
        raise refuse("torch.distributed", "recv from any rank")
    place = _place(found, src, group_src)
    _unless_alone(found, place)
    box = found.letters.setdefault((place, found.rank(), tag), [])
    seat().wait(lambda: bool(box), None, "recv")
    tensor.values[:] = [tensor.dtype.of(value) for value in box.pop(0)]
    return place


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    **_: Any,
) -> Any:
    """Make a group; every rank of the default group must call this, in one order."""
    del timeout
    whole = seat().default()
    chosen = range(whole.size()) if ranks is None else ranks
    members = tuple(sorted(int(rank) + whole.base for rank in chosen))
    kind = ("new_group", members, backend)
    done = whole.bring(kind, None)
    # The same object for all its ranks, which come to this round.
    made = Group(whole.hall, members, backend or whole.backend, base=whole.base)
    if not whole.hall.alone:
        made = whole.made.setdefault(id(done), made)
    Work(whole, done, "new_group", lambda _: None, None).wait()
    return made if seat().rank in members else _ELSEWHERE


def get_rank(group: Any = None) -> int:
    """This rank's place in a group, -1 where it is not in it."""
    return -1 if group is _ELSEWHERE else _group(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks a group has, -1 for one that this rank is not in."""
    return -1 if group is _ELSEWHERE else _group(group).size()


def get_backend(group: Any = None) -> str:
    """The backend's name."""
    found = _group(group)
    if found.stateless:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return found.backend


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of a group, as torch counts."""
    found = _group(group)
    return [rank - found.base for rank in found.ranks]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The place in a group of a rank."""
    return _place(_group(group), global_rank, None)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank at a place of a group."""
    return get_process_group_ranks(group)[group_rank]


class _WorldOf:
    """`torch.distributed.group`."""

    @property
    def WORLD(self) -> Group | None:  # noqa: N802  # torch's name
        """The default group, None where there is none."""
        found = seated()
        return None if found is None else found.default()


_FUNCTIONS: Final[dict[str, Any]] = {
    each.__name__: each
    for each in (
        all_reduce, reduce, all_gather, all_gather_into_tensor, gather, broadcast,
        all_gather_object, gather_object, broadcast_object_list, barrier, monitored_barrier, send,
        recv, new_group, get_rank, get_world_size, get_backend, get_process_group_ranks,
        get_group_rank, get_global_rank, Work,
    )
}  # fmt: skip
_SURFACE: Final[dict[str, Any]] = {
    **_FUNCTIONS,
    "ProcessGroup": Group,
    "ReduceOp": SimpleNamespace(**{name: name for name in (*_OPERATIONS, "AVG")}),
    "DistBackendError": type("DistBackendError", (RuntimeError,), {}),
    "DistError": type("DistError", (RuntimeError,), {}),
    "GroupMember": SimpleNamespace(NON_GROUP_MEMBER=_ELSEWHERE),
    "group": _WorldOf(),
    "is_available": lambda: True,
    "is_initialized": lambda: seated() is not None,
    "is_gloo_available": lambda: True,
    "is_nccl_available": lambda: device_backend() == "nccl",
    "is_backend_available": lambda name: str(name).lower() in {GLOO, device_backend()},
    "default_pg_timeout": None,
}


class DistributedModule(ModuleType):
    """`torch.distributed`, and any module below it."""

    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        """The meaning of a name."""
        if name in _SURFACE:
            return _SURFACE[name]
        raise refuse(self.__name__, name)


def gathered(group: Group, tensor: Tensor) -> Tensor:
    """The tensors of all ranks, one after the other in a new dimension."""
    places = [tensor.clone() for _ in range(group.size())]
    all_gather(places, tensor, group=group)
    return stack(places)
