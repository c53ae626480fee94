# SPDX-License-Identifier: Apache-2.0
"""The little of torch that an engine on a CUDA device uses, on a played card.

It caches what is freed, as torch does, and gives it out again for a request of the same size.
"""

from __future__ import annotations

import importlib
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final, final

from startup_plan.harness.stubs.units import MIB

card: Any = importlib.import_module("played_card")

__version__: Final = "2.11.0+played"
version: Final = SimpleNamespace(cuda="13.0", hip=None, xpu=None)
uint8, int64, bfloat16 = "uint8", "int64", "bfloat16"
_WORD: Final = 8


class OutOfMemoryError(RuntimeError):
    """The card has no more."""


class _Storage:
    """Memory of the card, as long as anybody has it."""


@final
class _State:
    """What the allocator of this process knows."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.context = 0
        self.cached: list[tuple[int, int]] = []
        self.workspace: Tensor | None = None

    def freed(self, number: int, size: int) -> None:
        self.allocated -= size
        self.cached.append((number, size))

    def empty_cache(self) -> None:
        while self.cached:
            card.give(self.cached.pop()[0])

    def forget_peak(self, _device: object) -> None:
        self.peak = self.allocated


_state: Final = _State()


class Tensor:
    """Bytes of the card that all hold what was filled in last."""

    def __init__(self, size: int, storage: _Storage, width: int = 1) -> None:
        """A view of a storage."""
        self._size = size
        self._storage = storage
        self._width = width
        self._value: int | None = None

    def __len__(self) -> int:
        """Elements."""
        return self._size // self._width

    def __getitem__(self, part: slice) -> Tensor:
        """A part of the bytes."""
        start, stop, _ = part.indices(self._size)
        return Tensor(stop - start, self._storage)

    def __matmul__(self, other: Tensor) -> Tensor:
        """A product, which needs a workspace for good."""
        if _state.workspace is None:
            _state.workspace = empty(32 * MIB)
        return other

    def fill_(self, value: int) -> None:
        """Fill in."""
        self._value = value

    def view(self, _dtype: str) -> Tensor:
        """The same bytes as words."""
        return Tensor(self._size, self._storage, _WORD)

    def split(self, elements: int) -> list[Tensor]:
        """Pieces of so many words."""
        piece = elements * _WORD
        return [
            Tensor(min(piece, self._size - start), self._storage, _WORD)
            for start in range(0, self._size, piece)
        ]

    def __eq__(self, value: object) -> Any:
        """Whether each element has this value, as torch asks it."""
        same = self._value == value or not self._size
        return SimpleNamespace(all=lambda: SimpleNamespace(item=lambda: same))

    def __hash__(self) -> int:
        """By identity."""
        return id(self)

    def sum(self) -> Tensor:
        """Whatever."""
        return self

    def item(self) -> int:
        """Whatever."""
        return 1


def empty(size: int, dtype: str = uint8, device: str = "") -> Tensor:
    """Memory of the card."""
    del dtype, device
    found = next((one for one in _state.cached if one[1] == size), None)
    if found is not None:
        _state.cached.remove(found)
    number = card.take(size) if found is None else found[0]
    if number is None:
        _state.empty_cache()
        number = card.take(size)
    if number is None:
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes (played)")
    storage = _Storage()
    _state.allocated += size
    _state.peak = max(_state.peak, _state.allocated)
    weakref.finalize(storage, _state.freed, number, size)
    return Tensor(size, storage)


def zeros(*_shape: int, device: str) -> Tensor:
    """The first use of a device makes a context on it."""
    del device
    if not _state.context:
        _state.context = card.take(500 * MIB)
    return Tensor(1, _Storage())


def ones(*_shape: int, dtype: str, device: str) -> Tensor:
    """Too small to count."""
    del dtype, device
    return Tensor(1, _Storage())


def device(kind: str, index: int) -> str:
    """A name."""
    return f"{kind}:{index}"


cuda: Final = SimpleNamespace(
    get_device_properties=lambda _: SimpleNamespace(name="Played GPU", major=9, minor=9),
    set_device=lambda _: None,
    synchronize=lambda _=None: None,
    empty_cache=_state.empty_cache,
    mem_get_info=lambda _: card.info(),
    memory_allocated=lambda _: _state.allocated,
    max_memory_allocated=lambda _: _state.peak,
    reset_peak_memory_stats=_state.forget_peak,
    CUDAGraph=lambda: SimpleNamespace(replay=lambda: None, reset=lambda: None),
    graph=nullcontext,
)
