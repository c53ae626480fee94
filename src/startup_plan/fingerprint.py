# SPDX-License-Identifier: Apache-2.0
"""The factors of a boot and the key made of them. Pure.

Factors are spelled as JSON, which keeps `1`, `"1"`, `1.0` and `true` apart, and `null` from `""`
(KEY-12). A JSON object appears only as a tag that we put there ourselves, so that no value of a
setting can imitate one.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

from .memory_settings import field_counts, variable_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_DEEPEST: Final = 16
_LONGEST: Final = 96


class UnspeakableError(Exception):
    """A setting has a value that cannot be spelled the same way in every process."""


def key_of(factors: Mapping[str, object]) -> str:
    """The key: 16 lowercase hexadecimal characters (KEY-15)."""
    return hashlib.sha256(_text(factors).encode()).hexdigest()[:16]


def settings_of(config: object) -> tuple[object, dict[str, object]]:
    """Every setting of a configuration tree that counts, and a short account of it for people.

    Args:
        config: the `VllmConfig`; any tree of dataclasses will do.

    Returns:
        The spelled tree, and path -> value of those settings that differ from their defaults.

    Raises:
        UnspeakableError: a value has no spelling that is equal in every process.
    """
    changed: dict[str, object] = {}
    return _spell_section(config, "", changed, 0), changed


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that count, sorted by name (KEY-11)."""
    return {name: environ[name] for name in sorted(environ) if variable_counts(name)}


def _spell_section(
    section: Any, path: str, changed: dict[str, object], depth: int
) -> dict[str, object]:
    if depth > _DEEPEST:
        raise UnspeakableError(f"{path} is nested too deeply, perhaps in a circle")
    owner = type(section).__name__
    spelled: dict[str, object] = {}
    for name, field in section.__dataclass_fields__.items():
        if not field_counts(owner, name):
            continue
        value = getattr(section, name, None)
        kind = type(value)
        if kind in _PLAIN:
            spelled[name] = value
            if value is not field.default and value != field.default:
                changed[path + name] = _brief(value)
        elif hasattr(value, "__dataclass_fields__") and kind is not type:
            spelled[name] = _spell_section(value, f"{path}{name}.", changed, depth + 1)
            if field.default is None:
                changed[path + name] = kind.__name__
        else:
            spelled[name] = text = _spell(value, f"{path}{name}", changed, depth + 1)
            if value:
                changed[path + name] = _brief(text)
    return {owner: spelled}


def _spell(value: Any, path: str, changed: dict[str, object], depth: int) -> object:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEEPEST:
        raise UnspeakableError(f"{path} is nested too deeply, perhaps in a circle")
    if kind is list or kind is tuple:
        return [_spell(item, path, changed, depth + 1) for item in value]
    if isinstance(value, enum.Enum):
        return {"enum": [kind.__name__, value.name]}
    if hasattr(value, "__dataclass_fields__") and kind is not type:
        return _spell_section(value, f"{path}.", changed, depth + 1)
    if isinstance(value, dict):
        pairs = [
            [_spell(key, path, changed, depth + 1), _spell(item, f"{path}[{key}]", changed, depth)]
            for key, item in value.items()
        ]
        return {"mapping": sorted(pairs, key=_text)}
    if isinstance(value, (set, frozenset)):
        return {
            "set": sorted((_spell(item, path, changed, depth + 1) for item in value), key=_text)
        }
    return {"object": _spell_object(value, path, changed, depth)}


def _spell_object(value: Any, path: str, changed: dict[str, object], depth: int) -> list[object]:
    kind = type(value)
    if isinstance(value, os.PathLike):
        return ["path", os.fspath(value)]
    if isinstance(value, (str, int, float, bytes)):  # a subclass of a plain type
        return [kind.__qualname__, repr(value)]
    named = value if isinstance(value, type) or hasattr(value, "__code__") else None
    if named is not None:
        return ["name", f"{named.__module__}.{named.__qualname__}"]
    if isinstance(value, (list, tuple)):
        return [kind.__qualname__, [_spell(item, path, changed, depth + 1) for item in value]]
    state = getattr(value, "__dict__", None)
    if state is not None:
        return [kind.__qualname__, _spell(dict(state), path, changed, depth + 1)]
    text = repr(value)
    if " at 0x" in text:
        raise UnspeakableError(f"{path} is {text[:80]}, which differs from process to process")
    return [kind.__qualname__, text]


def _brief(value: object) -> object:
    """`value` for the account that a plan carries: short values whole, long ones by digest."""
    text = _text(value)
    if len(text) <= _LONGEST:
        return value
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
