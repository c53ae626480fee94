# SPDX-License-Identifier: Apache-2.0
"""Sizes of memory, in bytes, and how stories write them."""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20
GIB: Final = 1 << 30

SAFETY_BUFFER: Final = 150 * MIB
"""What vLLM's worker takes off the value that it hands over for saving (`gpu_worker.py`)."""


def gib(number: int | None) -> str:
    """`number` bytes for a story: exact where GiB would hide the point."""
    if number is None:
        return "nothing"
    if number % (GIB // 64) and abs(number) < 2**40:
        return f"{number / GIB:.2f} GiB ({number} bytes)"
    return f"{number / GIB:.2f} GiB"
