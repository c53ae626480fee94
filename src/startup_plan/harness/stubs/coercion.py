# SPDX-License-Identifier: Apache-2.0
"""What vLLM's configuration classes make of a value that they are constructed with.

They are pydantic dataclasses: `CacheConfig(gpu_memory_utilization=1)` holds `1.0`, and `"8"` is 8
where a number is asked for. What is assigned later stays as it is. The table says what each field
takes in a few words: `int`, `float`, `bool` and `str`, `list[…]` or `set[…]` of one of them,
alternatives with `|`, and a `?` at the end where None is taken as well. A field of which the table
says nothing keeps what it is given. Bounds and choices are not in the table.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Taker = Callable[[Any], Any]

_YES: Final = frozenset({"1", "on", "t", "true", "y", "yes"})
_NO: Final = frozenset({"0", "off", "f", "false", "n", "no"})
_MANY: Final = re.compile(r"(list|set)\[(.+)\]")


class RefusedValueError(ValueError):
    """vLLM does not construct a configuration with such a value."""


def taken(takes: str, value: Any) -> Any:
    """What a field that takes `takes` holds when it is constructed with `value`.

    Raises:
        RefusedValueError: vLLM refuses it.
    """
    return _taker(takes)(value)


@functools.cache
def _taker(takes: str) -> Taker:
    if takes.endswith("?"):
        rest = _taker(takes[:-1])
        return lambda value: None if value is None else rest(value)
    if "|" in takes:
        return functools.partial(_one_of, takes.split("|"))
    many = _MANY.fullmatch(takes)
    if many is not None:
        kind = {"list": list, "set": set}[many[1]]
        return functools.partial(_several, kind, _taker(many[2]))
    return _SCALARS[takes]


def _refused(kind: str, value: Any) -> RefusedValueError:
    return RefusedValueError(f"vLLM takes {kind} here, not {value!r}")


def _one_of(kinds: list[str], value: Any) -> Any:
    """Of several types the one that the value has, otherwise the first that takes it."""
    if type(value).__name__ in kinds:
        return value
    for kind in kinds:
        try:
            return _taker(kind)(value)
        except RefusedValueError:
            continue
    raise _refused(" or ".join(kinds), value)


def _several(kind: type[Any], taker: Taker, value: Any) -> Any:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise _refused(f"a {kind.__name__}", value)
    return kind(taker(item) for item in value)


def _int(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    try:
        number = float(value) if isinstance(value, (float, str)) else None
        # A text is read as it stands: a float would lose the last digits of a long one.
        if number is not None and number.is_integer():
            return int(value) if not isinstance(value, str) or "." not in value else int(number)
    except (ValueError, OverflowError):
        pass
    raise _refused("a whole number", value)


def _float(value: Any) -> float:
    if isinstance(value, (int, float, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise _refused("a number", value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in {0, 1}:
        return bool(value)
    if isinstance(value, str) and value.lower() in _YES | _NO:
        return value.lower() in _YES
    raise _refused("true or false", value)


def _str(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise _refused("a text", value)


_SCALARS: Final[Mapping[str, Taker]] = {"int": _int, "float": _float, "bool": _bool, "str": _str}
