# SPDX-License-Identifier: Apache-2.0
"""Every way bytes go wrong: named variants of the bytes of a plan.

Nothing here knows a file format. Each generator is a pure function of its arguments, so a variant's
name stands for the same damage in every run, and a counterexample can be reproduced from its name.
Where all variants would be too many, a sample is drawn from a generator with a fixed seed; `limit`
says how many are allowed, and what the sample always contains stands with each generator.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SEED: Final = 20260
_TOKEN: Final = re.compile(rb"([A-Za-z0-9_.+-]+)")
_NUMBER: Final = re.compile(rb"(?<![A-Za-z0-9.])[1-9][0-9]{4,18}(?![A-Za-z0-9.])")
_DIGITS: Final = b"0123456789"
_LOUD: Final = b"-.eE+ \n\"',:{}[]\x00\x7f\x80\xff"
"""Bytes that end, negate, scale or break a number or a text."""


class Variant(NamedTuple):
    """What lies at a path instead of what was saved there.

    Attributes:
        name: what was done, for people, the same in every run.
        data: the bytes.
    """

    name: str
    data: bytes


def truncations(data: bytes, limit: int) -> Iterator[Variant]:
    """Every strict prefix, the empty one included, and every strict suffix that is not empty.

    Above `limit`: evenly spread lengths, always with the shortest and the longest.
    """
    for size in _spread(len(data), limit // 2):
        yield Variant(f"cut to its first {size} bytes", data[:size])
    for lost in _spread(len(data) - 1, limit // 2):
        yield Variant(f"its first {lost + 1} bytes lost", data[lost + 1 :])


def bit_flips(data: bytes, limit: int) -> Iterator[Variant]:
    """Every single bit, flipped.

    Above `limit`: as many bits of each byte as fit, which ones is drawn; where not even one fits,
    one bit of bytes that are spread evenly.
    """
    dice = random.Random(_SEED)  # noqa: S311  # a sample, not a secret
    each = max(1, min(8, limit // max(1, len(data))))
    for place in _spread(len(data), max(1, limit)):
        byte = data[place]
        for bit in sorted(dice.sample(range(8), each)):
            new = byte ^ 1 << bit
            yield Variant(
                f"bit {bit} of byte {place} flipped ({_shown(byte)} to {_shown(new)})",
                _with_byte(data, place, new),
            )


def substitutions(data: bytes, limit: int) -> Iterator[Variant]:
    """Every other value of every single byte: 255 for each.

    Above `limit`: at digits every other digit, because that changes a number and leaves it one;
    the rest of the limit is spread over all places, one half drawn from the bytes that mean
    something in a text format and one half from all 255. Where not even two a place fit, over
    places that are spread evenly.
    """
    dice = random.Random(_SEED)  # noqa: S311  # a sample, not a secret
    exhaustive = len(data) * 255 <= limit
    places = _spread(len(data), limit if exhaustive else max(1, limit // 4))
    digits = 0 if exhaustive else sum(data[place] in _DIGITS for place in places)
    share = max(2, (limit - 9 * digits) // max(1, len(places)))
    for place in places:
        byte = data[place]
        if exhaustive:
            chosen = set(range(256))
        else:
            chosen = set(_DIGITS if byte in _DIGITS else b"")
            chosen.update(dice.sample(_LOUD, min(len(_LOUD), share // 2)))
            chosen.update(dice.sample(range(256), share - share // 2))
        for new in sorted(chosen - {byte}):
            yield Variant(
                f"byte {place} changed from {_shown(byte)} to {_shown(new)}",
                _with_byte(data, place, new),
            )


def tails(data: bytes, limit: int) -> Iterator[Variant]:
    """An end that never reached the disk, or more than was written there.

    From each place on: zeros, ones, an earlier file's bytes (`0x20`), or garbage, the length kept;
    and behind the whole: zeros, garbage, white space, digits, itself, a part of itself. Above
    `limit` the places are spread evenly.
    """
    noise = random.Random(_SEED).randbytes(max(4096, len(data)))  # noqa: S311  # as above
    fills = (
        ("zeros", bytes(len(data))),
        ("0xff", b"\xff" * len(data)),
        ("spaces", b" " * len(data)),
        ("garbage", noise),
    )
    for place in _spread(len(data), limit // len(fills)):
        for what, fill in fills:
            bad = data[:place] + fill[: len(data) - place]
            yield Variant(f"{what} from byte {place} on, same length", bad)
    endings = (
        ("a zero byte", b"\0"),
        ("a line feed", b"\n"),
        ("a carriage return", b"\r\n"),
        ("a space", b" "),
        ("the digit 0", b"0"),
        ("the digit 9", b"9"),
        ("a brace", b"}"),
        ("a comma", b","),
        ("512 zero bytes", bytes(512)),
        ("4096 zero bytes", bytes(4096)),
        ("4096 bytes of garbage", noise[:4096]),
        ("4096 spaces", b" " * 4096),
        ("itself", data),
        ("its own last byte", data[-1:]),
        ("its own second half", data[len(data) // 2 :]),
    )
    for what, ending in endings:
        yield Variant(f"{what} appended", data + ending)
    yield Variant("a zero byte put in front", b"\0" + data)
    yield Variant("a line feed put in front", b"\n" + data)
    yield Variant("its own first byte put in front", data[:1] + data)


def blocks(data: bytes, limit: int) -> Iterator[Variant]:
    """Whole blocks of 1 to 4096 bytes zeroed, lost, doubled, or exchanged with the next.

    Above `limit`: the places of each size are spread evenly.
    """
    sizes = [size for size in (1, 4, 8, 16, 64, 512, 4096) if size < len(data)]
    for size in sizes:
        for number in _spread(-(-len(data) // size), limit // (4 * len(sizes))):
            start, end = number * size, min((number + 1) * size, len(data))
            head, block, rest = data[:start], data[start:end], data[end:]
            what = f"the {size} bytes at {start}" if size > 1 else f"byte {start}"
            yield Variant(f"{what} zeroed", head + bytes(len(block)) + rest)
            yield Variant(f"{what} lost", head + rest)
            yield Variant(f"{what} doubled", head + block + block + rest)
            if rest[:size] != block and rest:
                swapped = rest[:size] + block + rest[size:]
                yield Variant(f"{what} exchanged with the next", head + swapped)


def numbers(data: bytes, limit: int) -> Iterator[Variant]:
    """Other digits of one number, in ways that a weak checksum does not notice.

    Of every number of five digits or more: two digits exchanged, one digit raised and another
    lowered by as much, and other numbers of as many digits, drawn until the limit is reached.
    """
    dice = random.Random(_SEED)  # noqa: S311  # a sample, not a secret
    found = list(_NUMBER.finditer(data))
    for match in found:
        digits, place = match[0].decode(), match.start()
        changed = {*_rearranged(digits)}
        share = limit // len(found)
        while len(changed) < share:
            changed.add(str(dice.randrange(10 ** (len(digits) - 1), 10 ** len(digits))))
        for other in itertools.islice(sorted(changed - {digits}), share):
            bad = data[:place] + other.encode() + data[match.end() :]
            yield Variant(f"the number {digits} at byte {place} changed to {other}", bad)


def _rearranged(digits: str) -> Iterator[str]:
    for one, two in itertools.permutations(range(len(digits)), 2):
        changed = list(digits)
        if one < two:
            changed[one], changed[two] = changed[two], changed[one]
            yield "".join(changed)
        changed = list(digits)
        if changed[one] < "9" and changed[two] > "0":
            changed[one], changed[two] = str(int(changed[one]) + 1), str(int(changed[two]) - 1)
            yield "".join(changed)


def splices(left: bytes, right: bytes, limit: int) -> Iterator[Variant]:
    """Plans put together from two plans; never one of the two itself.

    Cut anywhere, the same place or the same distance from the end; the other way round; one written
    over the other without cutting it short; and, where both have the same words and numbers in the
    same order, every choice between those that differ. Above `limit`: places spread evenly.
    """
    met = {left, right}
    for variant in _all_splices(left, right, limit):
        if variant.data not in met:
            met.add(variant.data)
            yield variant


def _all_splices(left: bytes, right: bytes, limit: int) -> Iterator[Variant]:
    yield from _choices(left, right, limit)
    both = (("first", left, "second", right), ("second", right, "first", left))
    for name, one, other_name, other in both:
        yield Variant(f"the {name} written over the {other_name}", one + other[len(one) :])
        for place in _spread(max(len(one), len(other)), limit):
            head = one[:place]
            yield Variant(f"{place} bytes of the {name}, then the {other_name}'s from there",
                          head + other[place:])  # fmt: skip
            rest = other[max(0, len(other) - (len(one) - place)) :]
            yield Variant(f"{place} bytes of the {name}, then the {other_name}'s end", head + rest)


def _choices(left: bytes, right: bytes, limit: int) -> Iterator[Variant]:
    """Every mixture of the words and numbers in which two texts differ."""
    ours, theirs = _TOKEN.split(left), _TOKEN.split(right)
    if len(ours) != len(theirs):
        return
    differ = [i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    chosen = (
        picked for size in range(1, len(differ)) for picked in itertools.combinations(differ, size)
    )
    for picked in itertools.islice(chosen, limit):
        mixed = [theirs[i] if i in picked else token for i, token in enumerate(ours)]
        words = ", ".join(theirs[i].decode("latin-1")[:40] for i in picked)
        yield Variant(f"the first with {words} of the second", b"".join(mixed))


class Damage(NamedTuple):
    """One way in which the bytes of a single plan go wrong.

    Attributes:
        variants: bytes and limit -> the variants.
        per_byte: how many variants there are for each byte, at most; beyond any limit where they
            are always a sample.
    """

    variants: Callable[[bytes, int], Iterator[Variant]]
    per_byte: int

    def is_exhaustive(self, data: bytes, limit: int) -> bool:
        """Whether the limit leaves room for every variant."""
        return self.per_byte * len(data) <= limit


DAMAGE: Final = {
    "truncations": Damage(truncations, 2),
    "bit flips": Damage(bit_flips, 8),
    "byte substitutions": Damage(substitutions, 255),
    "numbers": Damage(numbers, 1_000_000),
    "tails": Damage(tails, 4),
    "blocks": Damage(blocks, 6),
}
"""The ways that need one plan, by the name that reports give them."""


def _with_byte(data: bytes, place: int, value: int) -> bytes:
    return b"%b%c%b" % (data[:place], value, data[place + 1 :])


def _shown(byte: int) -> str:
    return repr(chr(byte)) if 0x20 < byte < 0x7F else f"0x{byte:02x}"


def _spread(total: int, limit: int) -> list[int]:
    """At most `limit` of the numbers below `total`, evenly, with the first and the last."""
    if total <= limit:
        return list(range(total))
    step = (total - 1) / max(1, limit - 1)
    return sorted({round(step * number) for number in range(max(1, limit))} | {total - 1})
