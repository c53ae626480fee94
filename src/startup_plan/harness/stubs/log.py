# SPDX-License-Identifier: Apache-2.0
"""What is kept of the lines that a subject logs."""

from __future__ import annotations

from typing import Final

_LINES: Final = 2500
_CHARACTERS: Final = 10_000


def keep_line(log: list[tuple[str, str]], level: str, text: str) -> None:
    """Append a line to a log, as (level, message), within bounds: a subject may log without end.

    The first 2,500 lines of a log stay and the last ones, up to as many; between them stands how
    many are left out. Of a line the first 10,000 characters stay.
    """
    if len(text) > _CHARACTERS:
        text = f"{text[:_CHARACTERS]}…"
    if len(log) > 2 * _LINES:
        left_out = int(log[_LINES][1].split()[0]) + 1
        log[_LINES : _LINES + 2] = [("debug", f"{left_out} lines are left out")]
    elif len(log) == 2 * _LINES:
        log.insert(_LINES, ("debug", "0 lines are left out"))
    log.append((level, text))
