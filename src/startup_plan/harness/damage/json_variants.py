# SPDX-License-Identifier: Apache-2.0
"""Damage that still is JSON, for subjects whose file happens to be a JSON object.

A parser lets much more through than a writer puts out. These variants are what a writer would not
have written and a parser may take: other types, other spellings of a number, values moved from one
field to another, fields twice or missing, other encodings, other documents around the plan. For a
file that is no JSON object there are none.
"""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Final

from .variants import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

STRANGE: Final = (
    "null", "true", "false", "0", "-0", "-1", "1", "0.5", "1.0", "-1.5", "1e3", "7e10", "1e300",
    "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "9007199254740993", "9223372036854775807",
    "9223372036854775808", "18446744073709551615", "1000000000000000000", '""', '"0"', '"123"',
    '"true"', '"\\u0000"', '"\\ud800"', "[]", "{}", "[1]", '{"a": 1}', "[[[[[[[[]]]]]]]]",
)  # fmt: skip
"""Values of every JSON type and of every size that matters, none of which a boot has measured."""

HUGE: Final = {
    "an integer of 400 digits": "1" + "0" * 399,
    "an integer of 4000 digits": "9" * 4000,
    "an integer of 10000 digits": "9" * 10_000,
    "a negative integer of 400 digits": "-1" + "0" * 399,
    "a list nested 30000 deep": "[" * 30_000 + "]" * 30_000,
    "an object nested 10000 deep": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "a text of 50000 characters": '"' + "x" * 50_000 + '"',
}
"""Values that overflow something: a digit limit, a float, a stack."""

_MOST_FIELDS: Final = 12


def fields_of(data: bytes) -> dict[str, str]:
    """The fields of a JSON object and the text of their values; empty if `data` is none."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if type(body) is not dict:
        return {}
    return {name: json.dumps(value) for name, value in body.items()}


def mutations(data: bytes) -> Iterator[Variant]:
    """Every mutation of this module; none if `data` is no JSON object."""
    fields = fields_of(data)
    if not fields:
        return
    yield from _rewritten(data, fields)
    for name in list(fields)[:_MOST_FIELDS]:
        yield from _of_value(fields, name)
        yield from _of_field(fields, name)


def _of_value(fields: dict[str, str], name: str) -> Iterator[Variant]:
    mine = fields[name]
    for text in STRANGE:
        if text != mine:
            yield Variant(f"{name} set to {text}", _joined(fields | {name: text}))
    for what, text in HUGE.items():
        yield Variant(f"{name} set to {what}", _joined(fields | {name: text}))
    others = [(other, text) for other, text in fields.items() if text != mine and len(text) < 100]
    for other, text in others:
        yield Variant(f"{name} set to the value of {other}", _joined(fields | {name: text}))
        swapped = fields | {name: text, other: mine}
        yield Variant(f"{name} and {other} exchanged", _joined(swapped))
    spellings = (
        f"{mine}0", f"{mine}.0", f"{mine}e0", f"{mine}E+0", f"-{mine}", f"+{mine}", f"0{mine}",
        f"{mine}e1", f"{mine}.5", f"[{mine}]", f'{{"value": {mine}}}', f"{mine} {mine}",
        f"{mine}_0", f"0x{mine}", json.dumps(mine),
    )  # fmt: skip
    for text in spellings if len(mine) < 100 else ():
        yield Variant(f"{name} written {text}", _joined(fields | {name: text}))


def _of_field(fields: dict[str, str], name: str) -> Iterator[Variant]:
    rest = {other: text for other, text in fields.items() if other != name}
    yield Variant(f"{name} left out", _joined(rest))
    yield Variant(f"{name} in capitals", _joined(rest | {name.upper(): fields[name]}))
    yield Variant(f"{name} with a space behind", _joined(rest | {f"{name} ": fields[name]}))
    for text in ("1", "null", "true", "9" * 400):
        what = text if len(text) < 9 else "400 digits"
        yield Variant(f"{name} twice, {what} last", _doubled(fields, name, text))
        # The genuine value last: what a parser keeps, and what a save has not written.
        yield Variant(
            f"{name} twice, {what} first",
            f"{{{json.dumps(name)}: {text}, ".encode() + _joined(fields)[1:],
        )


def _rewritten(data: bytes, fields: dict[str, str]) -> Iterator[Variant]:
    """The same plan, or nearly, in another form."""
    text = data.decode("utf-8", "replace")
    good = _joined(fields)
    around = {
        "in a list": b"[" + good + b"]",
        "as a value": b'{"plan": ' + good + b"}",
        "as a JSON text": json.dumps(text).encode(),
        "twice": good + good,
        "on two lines": good + b"\n" + good,
        "with a trailing comma": good[:-1] + b",}",
        "with single quotes": good.replace(b'"', b"'"),
        "with a comment": b"// plan\n" + good,
        "with fields in reverse": _joined(dict(reversed(fields.items()))),
        "without spaces": json.dumps(json.loads(data), separators=(",", ":")).encode(),
        "indented": json.dumps(json.loads(data), indent=2).encode(),
        "with an unknown field": _joined(fields | {"unknown": "1"}),
        "with an unknown field of 10000 digits": _joined(fields | {"unknown": "9" * 10_000}),
        "with an empty name": _joined(fields | {"": "1"}),
        "with NaN in it": _joined(fields | {"unknown": "NaN"}),
        "with escapes for digits": _escaped(good),
    }
    for what, changed in around.items():
        if changed != data:
            yield Variant(f"the plan {what}", changed)
    encodings = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037")
    for encoding in encodings:
        yield Variant(f"the plan in {encoding}", text.encode(encoding))
    yield Variant("the plan with two byte-order marks", codecs.BOM_UTF8 * 2 + data)
    yield Variant("the plan with a no-break space in front", b"\xa0" + data)
    yield Variant("the plan with a no-break space in UTF-8 in front", "\xa0".encode() + data)


def _joined(fields: dict[str, str]) -> bytes:
    inside = ", ".join(f"{json.dumps(name)}: {text}" for name, text in fields.items())
    return f"{{{inside}}}".encode()


def _doubled(fields: dict[str, str], name: str, text: str) -> bytes:
    return _joined(fields)[:-1] + f", {json.dumps(name)}: {text}}}".encode()


def _escaped(good: bytes) -> bytes:
    """Digits inside texts as escapes; outside they would be no JSON."""
    pieces = good.decode().split('"')
    inside = ["".join(f"\\u{ord(c):04x}" if c.isdigit() else c for c in p) for p in pieces[1::2]]
    pieces[1::2] = inside
    return '"'.join(pieces).encode()
