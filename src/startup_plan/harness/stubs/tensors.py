# SPDX-License-Identifier: Apache-2.0
"""The small tensors in which ranks vote: a few numbers, a type, a device.

What torch can do with a tensor and this cannot is refused by name, so that a vote in another shape
is undecided and never a violation.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import TYPE_CHECKING, Any, Final, final

from .state import active
from .unknown import refuse
from .worker import StubDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@final
class DType:
    """`torch.int64` and the like."""

    __slots__ = ("is_floating_point", "name", "of")

    def __init__(self, name: str, of: Callable[[Any], Any], *, floating: bool = False) -> None:
        """A type by its name; `of` makes one of its values."""
        self.name = name
        self.of = of
        self.is_floating_point = floating

    def __repr__(self) -> str:
        """As torch spells it."""
        return f"torch.{self.name}"


_BOOL: Final = DType("bool", bool)
_INT64: Final = DType("int64", int)
_FLOAT32: Final = DType("float32", float, floating=True)
_WHOLE: Final = tuple(DType(name, int) for name in ("uint8", "int8", "int16", "int32"))
_REAL: Final = tuple(
    DType(name, float, floating=True) for name in ("float16", "bfloat16", "float64")
)
_ALIASES: Final = {
    "long": "int64", "int": "int32", "short": "int16", "float": "float32", "double": "float64",
    "half": "float16",
}  # fmt: skip
DTYPES: Final = {each.name: each for each in (_BOOL, _INT64, _FLOAT32, *_WHOLE, *_REAL)}
"""Every type that a tensor may have, by torch's name."""
DTYPES.update({alias: DTYPES[name] for alias, name in _ALIASES.items()})


def _placed(device: Any) -> StubDevice:
    """The device that is meant, with an index if it is an accelerator.

    Raises:
        RuntimeError: there is no such device, in torch's words.
    """
    if device is None:
        return StubDevice("cpu")
    if isinstance(device, int):
        device = StubDevice(_accelerator(), device)
    found = device if isinstance(device, StubDevice) else StubDevice(str(device))
    if found.type == "cpu":
        return StubDevice("cpu")
    if found.type != _accelerator():
        raise refuse("torch", f"a tensor on {found}")
    simulation = active()
    index = simulation.current_device if found.index is None else found.index
    if not 0 <= index < len(simulation.numbering().visible()):
        raise RuntimeError("CUDA error: invalid device ordinal")
    return StubDevice(found.type, index)


def _accelerator() -> str:
    return active().runtime.backend.device_type


def _kind_of(values: Sequence[Any]) -> DType:
    if any(isinstance(value, builtins.float) for value in values):
        return _FLOAT32
    return _BOOL if values and all(isinstance(value, builtins.bool) for value in values) else _INT64


def _flatten(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    if isinstance(data, Tensor):
        return list(data.values), data.shape
    if not isinstance(data, (list, tuple)):
        return [data], ()
    parts = [_flatten(part) for part in data]
    shape = parts[0][1] if parts else ()
    if any(part[1] != shape for part in parts):
        raise ValueError("expected sequences of equal length")
    return [value for part in parts for value in part[0]], (len(parts), *shape)


@final
class Tensor:
    """`torch.Tensor`: its values one after the other, row by row.

    Args:
        values: its numbers.
        shape: its sizes.
        dtype: its type.
        device: where it lies.
    """

    __slots__ = ("device", "dtype", "shape", "values")

    def __init__(
        self, values: Sequence[Any], shape: tuple[int, ...], dtype: DType, device: StubDevice
    ) -> None:
        """Every value becomes one of the type."""
        self.values = [dtype.of(value) for value in values]
        self.shape = shape
        self.dtype = dtype
        self.device = device

    def __getattr__(self, name: str) -> Any:
        """Types and answers with no argument; anything else has no meaning here."""
        if name in _REDUCTIONS:
            return lambda *where, **more: self._reduced(name, where, more)
        if name in DTYPES:
            return lambda: self.to(DTYPES[name])
        raise refuse("torch.Tensor", name)

    def _reduced(self, name: str, where: tuple[Any, ...], more: dict[str, Any]) -> Tensor:
        if more or (where and not (where == (0,) and len(self.shape) == 1 and name in _PLAIN)):
            raise refuse("torch.Tensor", f"{name} along a dimension")
        function, dtype = _REDUCTIONS[name]
        kind = dtype or (_INT64 if self.dtype is _BOOL and name in {"sum", "prod"} else self.dtype)
        return Tensor([function(self.values)], (), kind, self.device)

    def item(self) -> Any:
        """The only value.

        Raises:
            RuntimeError: there are several.
        """
        if len(self.values) != 1:
            raise RuntimeError(
                f"a Tensor with {len(self.values)} elements cannot be converted to Scalar"
            )
        return self.values[0]

    def tolist(self) -> Any:
        """The values as nested lists."""
        return _nested(self.values, self.shape)

    def numel(self) -> int:
        """How many values."""
        return len(self.values)

    nelement = numel

    def dim(self) -> int:
        """How many dimensions."""
        return len(self.shape)

    ndim = property(dim)
    is_cpu = property(lambda self: self.device.type == "cpu")
    is_cuda = property(lambda self: self.device.type == "cuda")

    def size(self, dim: int | None = None) -> Any:
        """Sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def to(self, *where: Any, **more: Any) -> Tensor:
        """The same values elsewhere, or of another type."""
        dtype, device = self.dtype, self.device
        for given in (*where, more.get("device"), more.get("dtype")):
            if isinstance(given, DType):
                dtype = given
            elif isinstance(given, Tensor):
                dtype, device = given.dtype, given.device
            elif given is not None and not isinstance(given, builtins.bool):
                device = _placed(given)
        return Tensor(self.values, self.shape, dtype, device)

    def cpu(self) -> Tensor:
        """The same on the host."""
        return self.to("cpu")

    def cuda(self, device: Any = None, **_: Any) -> Tensor:
        """The same on a device."""
        return self.to(StubDevice("cuda") if device is None else device)

    def clone(self, **_: Any) -> Tensor:
        """A tensor of its own with the same values."""
        return Tensor(self.values, self.shape, self.dtype, self.device)

    def detach(self) -> Tensor:
        """The tensor itself: nothing here has a gradient."""
        return self

    contiguous = detach

    def view(self, *shape: Any) -> Tensor:
        """The same values in another shape."""
        sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape)
        if -1 in sizes:
            known = math.prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = len(self.values) // max(known, 1)
        if math.prod(sizes) != len(self.values):
            raise RuntimeError(f"shape '{sizes}' is invalid for input of size {len(self.values)}")
        again = Tensor((), tuple(sizes), self.dtype, self.device)
        again.values = self.values
        return again

    reshape = view

    def flatten(self) -> Tensor:
        """The same values in one row."""
        return self.view(-1)

    def squeeze(self, *_: Any) -> Tensor:
        """The same values without dimensions of one."""
        return self.view(*(size for size in self.shape if size != 1))

    def unsqueeze(self, dim: int) -> Tensor:
        """The same values with one dimension more."""
        place = dim % (len(self.shape) + 1)
        return self.view(*self.shape[:place], 1, *self.shape[place:])

    def fill_(self, value: Any) -> Tensor:
        """Give every place this value."""
        self.values[:] = [self.dtype.of(value)] * len(self.values)
        return self

    def zero_(self) -> Tensor:
        """Give every place 0."""
        return self.fill_(0)

    def copy_(self, other: Tensor, *_: Any, **__: Any) -> Tensor:
        """Take the other's values."""
        self.values[:] = [self.dtype.of(value) for value in other.expanded(len(self.values))]
        return self

    def expanded(self, count: int) -> list[Any]:
        """The values, the only one repeated as often as is asked."""
        if len(self.values) == count:
            return self.values
        if len(self.values) != 1:
            raise RuntimeError(f"{len(self.values)} values do not fit {count} places")
        return self.values * count

    def _rows(self) -> list[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        step = math.prod(self.shape[1:])
        rows = []
        for row in range(self.shape[0]):
            part = self.values[row * step : (row + 1) * step]
            rows.append(Tensor(part, self.shape[1:], self.dtype, self.device))
        return rows

    def __len__(self) -> int:
        """How many rows."""
        return len(self._rows())

    def __iter__(self) -> Iterator[Tensor]:
        """The rows."""
        return iter(self._rows())

    def __getitem__(self, place: Any) -> Tensor:
        """A row, or some of them."""
        if isinstance(place, Tensor) and place.dtype is _BOOL and place.shape == self.shape:
            kept = [value for value, keep in zip(self.values, place.values, strict=True) if keep]
            return Tensor(kept, (len(kept),), self.dtype, self.device)
        if isinstance(place, slice):
            return stack(self._rows()[place]) if self._rows()[place] else empty(0)
        if isinstance(place, (builtins.int, Tensor)):
            return self._rows()[operator.index(place)]
        raise refuse("torch.Tensor", "that way of indexing")

    def __setitem__(self, place: Any, value: Any) -> None:
        """Set one row, or some of them."""
        step = math.prod(self.shape[1:])
        rows = range(self.shape[0])[place] if isinstance(place, (builtins.int, slice)) else None
        if rows is None:
            raise refuse("torch.Tensor", "that way of indexing")
        chosen = [rows] if isinstance(rows, builtins.int) else rows
        given = Tensor(*_flatten(value), self.dtype, self.device).expanded(step * len(chosen))
        for number, row in enumerate(chosen):
            self.values[row * step : (row + 1) * step] = given[number * step : (number + 1) * step]

    def __bool__(self) -> bool:
        """Whether the only value is not zero."""
        if len(self.values) != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.values[0])

    def __int__(self) -> int:
        """The only value as a whole number."""
        return int(self.item())

    __index__ = __int__

    def __float__(self) -> float:
        """The only value as a real number."""
        return float(self.item())

    def __repr__(self) -> str:
        """Values, and where they are not on the host, the device."""
        where = "" if self.is_cpu else f", device='{self.device}'"
        return f"tensor({self.tolist()}{where})"

    def __format__(self, form: str) -> str:
        """The only value as a number would be, several as they are shown."""
        return format(self.values[0], form) if not self.shape else repr(self)

    __hash__ = object.__hash__

    def _with(self, other: Any, function: Callable[[Any, Any], Any], dtype: Any) -> Tensor:
        if isinstance(other, Tensor):
            if other.device != self.device and other.shape and self.shape:
                raise RuntimeError("Expected all tensors to be on the same device")
            right, shape = other.values, max(self.shape, other.shape, key=len)
        else:
            right, shape = [other], self.shape
        count = max(len(self.values), len(right))
        left = self.expanded(count)
        results = [
            function(*pair) for pair in zip(left, right * (count // len(right)), strict=True)
        ]
        return Tensor(results, shape, dtype or _kind_of(results), self.device)

    def __eq__(self, other: object) -> Any:
        """Value by value."""
        return self._with(other, operator.eq, _BOOL)

    def __ne__(self, other: object) -> Any:
        """Value by value."""
        return self._with(other, operator.ne, _BOOL)


_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_SUMS: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor")


def _operation(function: Callable[[Any, Any], Any], dtype: DType | None) -> Any:
    return lambda self, other: self._with(other, function, dtype)


def _swapped(function: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: self._with(other, lambda one, two: function(two, one), None)


def _inverted(tensor: Tensor) -> Tensor:
    logical = tensor.dtype is _BOOL
    return tensor._with(0, lambda value, _: not value if logical else ~value, tensor.dtype)


for _name in _COMPARISONS:
    _compare = _operation(getattr(operator, _name), _BOOL)
    setattr(Tensor, _name, _compare)
    setattr(Tensor, f"__{_name}__", _compare)
for _name in _SUMS:
    _function = getattr(operator, _name)
    setattr(Tensor, f"__{_name.strip('_')}__", _operation(_function, None))
    setattr(Tensor, f"__r{_name.strip('_')}__", _swapped(_function))
setattr(Tensor, "__invert__", _inverted)  # noqa: B010  # with the other operators

_PLAIN: Final = frozenset({"sum", "prod", "all", "any"})
"""What along the only dimension is the same as over everything."""

_REDUCTIONS: Final[dict[str, tuple[Callable[[Sequence[Any]], Any], DType | None]]] = {
    "all": (all, _BOOL),
    "any": (any, _BOOL),
    "sum": (sum, None),
    "prod": (math.prod, None),
    "min": (min, None),
    "max": (max, None),
    "amin": (min, None),
    "amax": (max, None),
    "count_nonzero": (lambda values: sum(map(bool, values)), _INT64),
}


def _nested(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return values[0]
    step = math.prod(shape[1:])
    return [_nested(values[row * step : (row + 1) * step], shape[1:]) for row in range(shape[0])]


def tensor(data: Any, *, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
    """`torch.tensor`."""
    values, shape = _flatten(data)
    return Tensor(values, shape, dtype or _kind_of(values), _placed(device))


def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, **_: Any
) -> Tensor:
    """`torch.full`."""
    shape = (size,) if isinstance(size, int) else tuple(size)
    return Tensor(
        [fill_value] * math.prod(shape), shape, dtype or _kind_of([fill_value]), _placed(device)
    )


def _filled(value: float) -> Callable[..., Tensor]:
    def make(*size: Any, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
        shape = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        return full(shape, value, dtype=dtype or _FLOAT32, device=device)

    return make


def _like(value: float) -> Callable[..., Tensor]:
    def make(other: Tensor, *, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
        where = other.device if device is None else device
        return full(other.shape, value, dtype=dtype or other.dtype, device=where)

    return make


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`torch.stack` along the first dimension."""
    if dim:
        raise refuse("torch", f"stack along dimension {dim}")
    values = [value for each in tensors for value in each.values]
    first = tensors[0]
    return Tensor(values, (len(tensors), *first.shape), first.dtype, first.device)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`torch.cat` along the first dimension."""
    rank = len(tensors[0].shape)
    if rank == 0:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    if dim not in {0, -rank}:
        raise refuse("torch", f"cat along dimension {dim}")
    return stack([row for each in tensors for row in each])


zeros, ones, empty = _filled(0), _filled(1), _filled(0)

SURFACE: Final[dict[str, Any]] = {
    **DTYPES,
    "Tensor": Tensor,
    "tensor": tensor,
    "as_tensor": lambda data, **more: (
        data.to(**more) if isinstance(data, Tensor) else tensor(data, **more)
    ),
    "full": full,
    "zeros": zeros,
    "ones": ones,
    "empty": empty,
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "empty_like": _like(0),
    "full_like": lambda other, value, **more: _like(value)(other, **more),
    "stack": stack,
    "cat": cat,
    "is_tensor": lambda value: isinstance(value, Tensor),
    "dtype": DType,
    **{
        name: (lambda given, *where, _name=name, **more: getattr(given, _name)(*where, **more))
        for name in _REDUCTIONS
    },
}
"""What `torch` has of all this, by name."""
