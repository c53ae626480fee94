# SPDX-License-Identifier: Apache-2.0
"""vLLM's coordinators: `get_world_group()` and its like, over `process_groups`.

Shapes and semantics are those of `GroupCoordinator` in vLLM's `distributed/parallel_state.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from . import distributed
from .process_groups import GLOO, Group, device_backend, seated
from .state import active
from .tensors import cat
from .unknown import refuse
from .worker import StubDevice

if TYPE_CHECKING:
    from collections.abc import Callable

    from .process_groups import Seat
    from .tensors import Tensor


@final
class Coordinator:
    """One group of vLLM's, as one of its ranks sees it.

    Args:
        name: "world", "tp", "pp", "dp" or "ep".
        here: whose view it is.

    Attributes:
        rank: the rank's number among all.
        ranks: the numbers of the group's ranks.
        world_size: how many they are.
        rank_in_group: the rank's place.
        cpu_group: their group for tensors on the host.
        device_group: their group for tensors on devices.
    """

    def __init__(self, name: str, here: Seat) -> None:
        """Look the group up."""
        self.unique_name = f"{name}:0"
        self.cpu_group: Group = here.hall.group(name, here.rank, GLOO)
        self.device_group: Group = here.hall.group(name, here.rank, device_backend())
        group = self.cpu_group
        base = 0 if group.stateless else group.base
        self.ranks = [rank - base for rank in group.ranks]
        self.rank = here.rank - base
        self.world_size = len(self.ranks)
        self.rank_in_group = self.ranks.index(self.rank)
        self.local_rank = self.device_index = here.index
        self.device = StubDevice(active().runtime.backend.device_type, here.index)
        self.first_rank, self.last_rank = self.ranks[0], self.ranks[-1]
        self.is_first_rank = self.rank == self.first_rank
        self.is_last_rank = self.rank == self.last_rank
        self.next_rank = self.ranks[(self.rank_in_group + 1) % self.world_size]
        self.prev_rank = self.ranks[(self.rank_in_group - 1) % self.world_size]
        self.mq_broadcaster = None
        self._serves_devices = name != "world"

    def __getattr__(self, name: str) -> Any:
        """Anything else has no meaning here."""
        raise refuse("vLLM's GroupCoordinator", name)

    def _check(self) -> None:
        # vLLM gives the world group no device communicator.
        if not self._serves_devices:
            raise ValueError("No device communicator found")

    def all_reduce(self, input_: Tensor) -> Tensor:
        """The sum over all ranks, in a new tensor."""
        if self.world_size == 1:
            return input_
        self._check()
        made = input_.clone()
        distributed.all_reduce(made, group=self.device_group)
        return made

    def all_gather(self, input_: Tensor, dim: int = -1) -> Tensor:
        """The tensors of all ranks along a dimension."""
        if self.world_size == 1:
            return input_
        self._check()
        if len(input_.shape) != 1:
            raise refuse("vLLM's GroupCoordinator", f"all_gather along dimension {dim}")
        return cat(list(distributed.gathered(self.device_group, input_)))

    def broadcast(self, input_: Tensor, src: int = 0) -> Tensor:
        """The tensor of the rank at a place of the group."""
        if self.world_size > 1:
            distributed.broadcast(input_, group=self.device_group, group_src=src)
        return input_

    def broadcast_object(self, obj: Any = None, src: int = 0) -> Any:
        """What the rank at a place of the group has."""
        if self.world_size == 1:
            return obj
        given = [obj if self.rank_in_group == src else None]
        distributed.broadcast_object_list(given, group=self.cpu_group, group_src=src)
        return given[0]

    def broadcast_object_list(self, obj_list: list[Any], src: int = 0, group: Any = None) -> Any:
        """The same for a list, in place."""
        del group
        if self.world_size > 1:
            distributed.broadcast_object_list(obj_list, group=self.cpu_group, group_src=src)
        return obj_list

    broadcast_tensor_dict = broadcast_object

    def barrier(self) -> None:
        """Wait until all are here, on the host."""
        distributed.barrier(group=self.cpu_group)


_NAMED: Final = {
    "world": "world",
    "tp": "tensor model parallel",
    "pp": "pipeline model parallel",
    "dp": "data parallel",
    "ep": "expert parallel",
}


def accessor(name: str) -> Callable[[], Coordinator]:
    """`get_NAME_group` of vLLM."""

    def get() -> Coordinator:
        here = seated()
        if here is None or (name == "ep" and not here.hall.layout.experts):
            raise AssertionError(f"{_NAMED[name]} group is not initialized")
        return Coordinator(name, here)

    return get


PROVIDED: Final[dict[str, Callable[[], Any]]] = {
    f"get_{name}_group": (lambda name=name: accessor(name)) for name in _NAMED
} | {
    "model_parallel_is_initialized": lambda: lambda: seated() is not None,
    "get_tensor_model_parallel_rank": lambda: lambda: accessor("tp")().rank_in_group,
    "get_tensor_model_parallel_world_size": lambda: lambda: accessor("tp")().world_size,
    "tensor_model_parallel_all_reduce": lambda: lambda given: accessor("tp")().all_reduce(given),
    "is_global_first_rank": lambda: lambda: seated() is None or accessor("world")().is_first_rank,
    "GroupCoordinator": lambda: Coordinator,
}
"""Name -> what it means in vLLM's modules."""
