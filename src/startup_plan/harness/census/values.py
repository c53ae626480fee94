# SPDX-License-Identifier: Apache-2.0
"""Other legal values of a real configuration field or variable.

Those of the settings table come first, as objects of the types that vLLM uses. For a field that
the table does not have, a value is made from the one that is there and from the annotation.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import pathlib
import types
import typing
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.stubs.settings import EXTRA_VARIABLES, ROWS, VARIABLES, plain

from .configs import config_classes_of, hint_of, made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .configs import Place

ROW: Final = {(row["owner"], row["path"].rpartition(".")[2]): row for row in ROWS}
_TEXTS: Final = {variable.name: variable.alternates for variable in (*VARIABLES, *EXTRA_VARIABLES)}


def others(place: Place) -> list[Any]:
    """Values that the field may have and does not have; none for a section that must be there."""
    now, row = place.value(), ROW.get((place.owner, place.field))
    if row is None:
        found = list(_invented(now, hint_of(place)))
    else:
        told = [*row["alternates"], row.get("default")] if "alternates" in row else []
        found = [_real(place, row, value) for value in told]
    return [value for value in found if not _same(value, now)]


def texts(name: str, read: Callable[[], Any]) -> list[str]:
    """Texts that variable `name` may have, other than what stands for its absence.

    Args:
        name: its name.
        read: how vLLM reads it, while it is not set.
    """
    if name in _TEXTS:
        return list(_TEXTS[name])
    default = None
    with contextlib.suppress(Exception):
        default = read()
    if isinstance(default, bool):
        return ["0" if default else "1"]
    if isinstance(default, (int, float)):
        return [str(default + 1)]
    return ["1"]


def unregistered() -> list[str]:
    """Variables of the allocator and the communicator, which vLLM does not register."""
    return [variable.name for variable in EXTRA_VARIABLES]


def shown(value: Any, longest: int = 60) -> str:
    """`value` for a table."""
    try:
        text = repr(plain(value) if dataclasses.is_dataclass(value) is False else value)
    except Exception:
        text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _same(value: Any, now: Any) -> bool:
    try:
        return type(value) is type(now) and bool(value == now)
    except Exception:
        return False


def _real(place: Place, row: Mapping[str, Any], value: Any) -> Any:
    """What stands for the table's `value` in a real configuration."""
    now, kind = place.value(), row.get("type", "")
    if value is None:
        return None
    if kind in _BUILDERS:
        return _BUILDERS[kind](value)
    if kind == "PretrainedConfig":
        return _with(copy.deepcopy(now), value)
    if kind == "QuantizationConfig":
        return types.SimpleNamespace(**value)
    if kind:
        members = {
            member.name: member for cls in _enums(hint_of(place)) for member in _members(cls)
        }
        if isinstance(value, dict):
            return {key: members.get(item, item) for key, item in value.items()}
        return members.get(value, value)
    classes = config_classes_of(place)
    if isinstance(value, dict) and classes and "part" in row:
        part = copy.deepcopy(now) if isinstance(now, classes[0]) else made(classes[0])
        simple = {key: item for key, item in value.items() if not isinstance(item, dict)}
        return _with(part, simple)
    return copy.deepcopy(value)


_BUILDERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Counter": collections.Counter,
    "Path": pathlib.Path,
    "set": set,
}


def _with(holder: Any, changes: Mapping[str, Any]) -> Any:
    for name, value in changes.items():
        with contextlib.suppress(Exception):
            object.__setattr__(holder, name, value)
    return holder


def _members(cls: type[enum.Enum]) -> Iterator[enum.Enum]:
    yield from cls.__members__.values()


def _enums(kind: Any) -> list[type[enum.Enum]]:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [kind]
    return [cls for part in typing.get_args(kind) for cls in _enums(part)]


def _invented(now: Any, kind: Any) -> Iterator[Any]:
    """Values for a field of which nothing is known but its annotation and what it holds."""
    for cls in _enums(kind):
        yield from list(_members(cls))[:3]
    literals = list(_literals(kind))
    yield from literals
    if isinstance(now, bool) or (now is None and _allows(kind, bool)):
        yield not now
    elif isinstance(now, (int, float)):
        yield now + 1
    elif isinstance(now, str) and not literals:
        yield f"{now}2"
    elif isinstance(now, dict):
        yield {**now, "other": 1}
    elif isinstance(now, (list, tuple, set, frozenset)):
        yield type(now)([*now, "other"])
    elif now is None:
        for plain_kind, value in ((int, 1), (float, 0.5), (str, "other"), (list, ["other"])):
            if _allows(kind, plain_kind):
                yield value
                return
        yield "other"
    elif dataclasses.is_dataclass(now):
        yield None
    else:
        yield types.SimpleNamespace(other=1)


def _literals(kind: Any) -> Iterator[Any]:
    if typing.get_origin(kind) is typing.Literal:
        yield from typing.get_args(kind)
        return
    for part in typing.get_args(kind):
        yield from _literals(part)


def _allows(kind: Any, wanted: type[Any]) -> bool:
    if kind is wanted or typing.get_origin(kind) is wanted:
        return True
    return any(_allows(part, wanted) for part in typing.get_args(kind))
