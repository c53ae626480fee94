# SPDX-License-Identifier: Apache-2.0
"""A plan whose schema version is written in another way than its subject writes it.

Nothing here knows what a subject calls its schema, where in the file it stands, or which it is. Two
plans of one engine, saved under two schema versions, show the place: there the one has the one
version and the other the other. In a file that is JSON the place is a field, at any depth; in any
other text it is a word. A file that is no text has no spellings.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from .variants import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.world.subject import Schema

_WORD: Final = re.compile(r"([\w.+-]+)")
_HERE: Final = "\x00here\x00"

_Path = tuple[str, ...]


def respelled(data: bytes, own: Schema, foreign: bytes, other: Schema) -> Iterator[Variant]:
    """Every spelling of a schema version that only resembles a subject's own.

    Args:
        data: a plan of the subject's own version.
        own: that version.
        foreign: a plan of the same engine, of another version.
        other: that version.
    """
    here, there = _json_of(data), _json_of(foreign)
    if isinstance(here, dict) and isinstance(there, dict):
        places = [p for p in _leaves(here) if _is(here, p, own) and _is(there, p, other)]
        if len(places) == 1:
            yield from _in_json(here, places[0], own, other)
        return
    words, others = _words(data), _words(foreign)
    if len(words) == len(others):
        pairs = enumerate(zip(words, others, strict=True))
        indices = [i for i, (a, b) in pairs if (a, b) == (str(own), str(other))]
        if len(indices) == 1:
            yield from _in_text(words, indices[0], own, other)


def _spellings(own: Schema, other: Schema) -> list[str]:
    """Words that are not the own version, some of which equal it in Python."""
    if isinstance(own, str):
        return [str(other), f"{own}.0", f"{own}_"]
    equal = {1: ["true", "True"], 0: ["false", "False"]}.get(own, [])
    return [*equal, f"{own}.0", f"{own}e0", str(other), str(own - 1), f"{own}.5"]


def _in_json(body: dict[str, Any], place: _Path, own: Schema, other: Schema) -> Iterator[Variant]:
    mine, theirs = json.dumps(own), json.dumps(other)
    if isinstance(own, str):
        texts = [theirs, json.dumps(f"{own} "), json.dumps(f"{own}.0")]
    else:
        texts = [word for word in _spellings(own, other) if word[0] not in "TF"]
        texts.append(f'"{own}"')
    name = ".".join(place)
    for text in (*texts, "null", f"[{mine}]", f'{{"{place[-1]}": {mine}}}'):
        yield Variant(f"{name} written {text}", _with(body, place, text))
    twice = f"{mine}, {json.dumps(place[-1])}: {theirs}"
    yield Variant(f"{name} written twice, {mine} then {theirs}", _with(body, place, twice))
    yield Variant(f"{name} left out", json.dumps(_without(body, place)).encode())


def _in_text(words: list[str], index: int, own: Schema, other: Schema) -> Iterator[Variant]:
    for text in _spellings(own, other):
        changed = [*words[:index], text, *words[index + 1 :]]
        yield Variant(f"schema written {text}", "".join(changed).encode())


def _json_of(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _words(data: bytes) -> list[str]:
    """A text cut into words and what lies between them; nothing if it is no text."""
    try:
        return _WORD.split(data.decode())
    except UnicodeDecodeError:
        return []


def _leaves(body: dict[str, Any], above: _Path = ()) -> Iterator[_Path]:
    for name, value in body.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name)


def _is(body: dict[str, Any], place: _Path, schema: Schema) -> bool:
    """Whether this very value, not one that only equals it, stands at a place."""
    value: Any = body
    for name in place:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return type(value) is type(schema) and bool(value == schema)


def _without(body: dict[str, Any], place: _Path) -> dict[str, Any]:
    first, *rest = place
    if not rest:
        return {name: value for name, value in body.items() if name != first}
    return body | {first: _without(body[first], tuple(rest))}


def _with(body: dict[str, Any], place: _Path, text: str) -> bytes:
    """The object with some text in the place of a value."""
    return json.dumps(_put(body, place)).replace(json.dumps(_HERE), text, 1).encode()


def _put(body: dict[str, Any], place: _Path) -> dict[str, Any]:
    first, *rest = place
    return body | {first: _put(body[first], tuple(rest)) if rest else _HERE}
