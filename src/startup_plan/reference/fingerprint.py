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

from .credentials import WITHHELD, holds_secret, is_secret
from .memory_settings import excluded_fields
from .plan import NoPlanError
from .variables import is_known, variable_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_DEEPEST: Final = 16
_LONGEST: Final = 96
_SET: Final = "(set)"
_EMPTY: Final[tuple[object, ...]] = ([], {"mapping": []}, {"set": []})


def key_of(factors: Mapping[str, object]) -> str:
    """The key: 16 lowercase hexadecimal characters (KEY-15)."""
    # What has been spelled out is no deeper than `_DEEPEST`, so it holds no circle to look for.
    text = json.dumps(factors, check_circular=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_of(config: Any) -> dict[str, list[Any]]:
    """Every setting of a configuration tree that counts, spelled out (KEY-10).

    Args:
        config: the `VllmConfig`; any tree of dataclasses will do.

    Returns:
        Class -> the names of its fields in one text, and their values in the same order.

    Raises:
        NoPlanError: a value has no spelling that is equal in every process.
    """
    return _spell_section(config, "", 0)


def account_of(config: Any, settings: Mapping[str, list[Any]]) -> dict[str, object]:
    """Path -> value of those settings that differ from their defaults, for people.

    Args:
        config: the tree that was spelled; only its classes are looked at, so that what was
            rewritten since does not matter.
        settings: what `settings_of` made of it.
    """
    account: dict[str, object] = {}
    _tell_section(config, settings, "", account)
    return {
        name: WITHHELD if is_secret(name) or holds_secret(value) else _brief(value)
        for name, value in account.items()
    }


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that count, sorted by name (KEY-11)."""
    return {name: environ[name] for name in sorted(environ) if variable_counts(name)}


def account_of_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """What a plan, which everybody can read, tells of the variables that count.

    Of a variable whose family is not known nobody can say what it holds, so only that it is set.
    """
    return {
        name: (WITHHELD if holds_secret(text) else _brief(text)) if is_known(name) else _SET
        for name, text in environment.items()
    }


def _tell_section(
    section: Any, spelled: Mapping[str, list[Any]], head: str, account: dict[str, object]
) -> None:
    fields = section.__dataclass_fields__
    names, values = spelled[type(section).__name__]
    for name, value in zip(names.split(), values, strict=True):
        default = fields[name].default
        if value is default:
            continue
        if type(value) in _PLAIN:
            if type(value) is not type(default) or value != default:
                account[head + name] = value
            continue
        part = getattr(section, name, None)
        if hasattr(part, "__dataclass_fields__") and type(part).__name__ in value:
            if default is None:
                account[head + name] = type(part).__name__
            _tell_section(part, value, f"{head}{name}.", account)
        elif value not in _EMPTY:
            account[head + name] = value


def _spell_section(section: Any, path: str, depth: int) -> dict[str, list[Any]]:
    owner = type(section).__name__
    left_out = excluded_fields(owner)
    names: list[str] = []
    values: list[Any] = []
    for name in section.__dataclass_fields__:
        if name not in left_out:
            value = getattr(section, name, None)
            names.append(name)
            if type(value) in _PLAIN:
                values.append(value)
            else:
                values.append(_spell(value, f"{path}.{name}", depth + 1))
    return {owner: [" ".join(names), values]}


def _spell(value: Any, path: str, depth: int) -> object:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEEPEST:
        raise NoPlanError(f"{path} is nested too deeply, perhaps in a circle")
    if kind is list or kind is tuple:
        return [_spell(item, path, depth + 1) for item in value]
    if hasattr(kind, "__dataclass_fields__"):
        return _spell_section(value, path, depth + 1)
    if isinstance(value, enum.Enum):
        return {"enum": [kind.__name__, value.name]}
    if isinstance(value, dict):
        pairs = [
            [_spell(key, path, depth + 1), _spell(item, f"{path}[{key}]", depth)]
            for key, item in value.items()
            if not _is_credential(key, item)
        ]
        return {"mapping": sorted(pairs, key=_text)}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((_spell(item, path, depth + 1) for item in value), key=_text)}
    return {"object": _spell_object(value, path, depth)}


def _is_credential(key: Any, item: Any) -> bool:
    """Whether an entry of a mapping is a secret, which takes no memory and is renewed.

    A number is none: `num_image_token` of a processor takes memory.
    """
    return type(key) is str and type(item) is str and is_secret(key)


def _spell_object(value: Any, path: str, depth: int) -> list[object]:
    kind = type(value)
    if isinstance(value, os.PathLike):
        return ["path", os.fspath(value)]
    if isinstance(value, (str, int, float, bytes)):  # a subclass of a plain type
        return [kind.__qualname__, repr(value)]
    named = value if isinstance(value, type) or hasattr(value, "__code__") else None
    if named is not None:
        return ["name", f"{named.__module__}.{named.__qualname__}"]
    if isinstance(value, (list, tuple)):
        return [kind.__qualname__, [_spell(item, path, depth + 1) for item in value]]
    state = getattr(value, "__dict__", None)
    if state is not None:
        return [kind.__qualname__, _spell(dict(state), path, depth + 1)]
    text = repr(value)
    if " at 0x" in text:
        raise NoPlanError(f"{path} is a {kind.__qualname__}, which differs from process to process")
    return [kind.__qualname__, text]


def _brief(value: Any) -> object:
    """`value`, which holds no secret, for the account: short values whole, long ones by digest."""
    if type(value) in _PLAIN and type(value) is not str:
        return value
    text = value if type(value) is str else _text(value)
    if len(text) <= _LONGEST:
        return value
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _text(value: object) -> str:
    return json.dumps(value)
