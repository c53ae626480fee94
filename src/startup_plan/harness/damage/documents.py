# SPDX-License-Identifier: Apache-2.0
"""Documents that no save has written, whatever format the subject uses.

They are what was found to stop a boot, or to be applied, on the vLLM module as released (LOAD-01),
and what parsers of any kind are known to trip over. Where a document holds a plan, it holds it in
the four fields of vLLM's own format, under the right key, so that a reader of that format goes as
far as it ever would.
"""

from __future__ import annotations

import json
import pickle
import zlib
from typing import TYPE_CHECKING

from .json_variants import HUGE, mutations
from .variants import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator


def documents(key: str, kv_bytes: int, baseline: int) -> Iterator[Variant]:
    """Every hostile document for the plan of one key.

    Args:
        key: the key, as the plan's file name gives it (KEY-15).
        kv_bytes: the KV-cache size in bytes that was saved under it.
        baseline: the free memory in bytes at which it was measured.
    """
    good = json.dumps(
        {
            "schema": 1,
            "fingerprint": key,
            # Less than was saved, so that a reader that takes it has applied what nobody measured.
            "kv_cache_memory_bytes": kv_bytes - 4096,
            "free_memory_baseline": baseline,
        }
    ).encode()
    yield from _nothing_much()
    yield from _no_objects(good)
    yield from _too_deep()
    yield from _other_formats(good)
    yield Variant("a plan that nobody saved, well formed", good)
    for variant in mutations(good):
        yield Variant(f"forged: {variant.name}", variant.data)


def _nothing_much() -> Iterator[Variant]:
    yield Variant("an empty file", b"")
    yield Variant("one zero byte", b"\0")
    yield Variant("4096 zero bytes", bytes(4096))
    yield Variant("white space", b" \t\r\n" * 8)
    yield Variant("one brace", b"{")
    yield Variant("one quotation mark", b'"')
    yield Variant("a byte-order mark", b"\xef\xbb\xbf")
    yield Variant("0xff 0xfe", b"\xff\xfe")
    yield Variant("all bytes from 0 to 255", bytes(range(256)))
    yield Variant("a line of text", b"startup plan\n")
    yield Variant("a UTF-8 surrogate", b'"\xed\xa0\x80"')
    yield Variant("an overlong UTF-8 sequence", b"\xc0\xaf")
    yield Variant("a cut UTF-8 sequence", b'{"schema": 1, "x": "\xe2\x82')


def _no_objects(good: bytes) -> Iterator[Variant]:
    texts = (
        "[]", "{}", '"plan"', '""', "0", "1", "-1", "1.5", "1e400", "NaN", "Infinity", "-Infinity",
        "null", "true", "false", "[[]]", "[{}]", "[1, 2]", "\x00", "{null: 1}", "{1: 2}",
    )  # fmt: skip
    for text in texts:
        yield Variant(f"the document {text!r}", text.encode())
    yield Variant("a list that holds the plan", b"[" + good + b"]")
    for what, text in HUGE.items():
        yield Variant(what, text.encode())


def _too_deep() -> Iterator[Variant]:
    for count in (1_000, 20_000, 100_000):
        yield Variant(f"{count} opening brackets", b"[" * count)
        yield Variant(f"{count} opening braces with a name", b'{"a":' * count)
        yield Variant(f"a list nested {count} deep", b"[" * count + b"]" * count)
        yield Variant(f"{count} opening parentheses", b"(" * count)
        yield Variant(f"{count} minus signs", b"-" * count)


def _other_formats(good: bytes) -> Iterator[Variant]:
    yield Variant("a YAML document", b"schema: 1\nfingerprint: &a [*a]\n")
    yield Variant("a TOML document", b"schema = 1\n[plan]\n")
    yield Variant("an XML document", b"<?xml version='1.0'?><plan/>")
    yield Variant("a pickle", pickle.dumps({"schema": 1}))
    yield Variant("a zlib stream", zlib.compress(good))
    yield Variant("a line of a shell script", b"#!/bin/sh\nexit 1\n")
    yield Variant("a Python expression", b"__import__('os').getpid()")
    yield Variant("an ELF header", b"\x7fELF\x02\x01\x01" + bytes(57))
    yield Variant("another plan's temporary file", good[: len(good) // 2] + good)
