# SPDX-License-Identifier: Apache-2.0
"""A known-gaps file: requirements a subject is known to break, each with the reason.

One gap a line, the id first and the reason after it; empty lines and lines that start with `#`
are skipped:

    # what our fork has not fixed yet
    KEY-02  utilization enters the key with our next release
    LOAD-04: we do not put FIFOs into caches
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path

    from .register import Register

_MAX_BYTES: Final = 1 << 20
_REASON: Final = 160
_ENTRY: Final = re.compile(r"([^\s:]+)\s*:?\s*(.*)")


class KnownGapsError(Exception):
    """The file cannot be used; the message is one sentence with the remedy."""


def load_known_gaps(path: Path, register: Register) -> dict[str, str]:
    """Read the gaps of a file: id to reason.

    Raises:
        KnownGapsError: when the file cannot be read, or a line names an unknown id, names an id
            twice, or gives no reason.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise KnownGapsError(
            f"the known-gaps file {path} cannot be read ({_reason(error)}): "
            "give a UTF-8 text file with one 'ID reason' a line"
        ) from error
    if len(raw) > _MAX_BYTES:
        raise KnownGapsError(
            f"the known-gaps file {path} is larger than 1 MiB: "
            "give a text file with one 'ID reason' a line"
        )
    gaps: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not (entry := line.strip()) or entry.startswith("#"):
            continue
        match = _ENTRY.fullmatch(entry)
        requirement_id, reason = match.groups() if match else (entry, "")
        place = f"{path}, line {number}"
        if requirement_id not in register:
            raise KnownGapsError(f"{place}: {register.describe_unknown(requirement_id)}")
        if requirement_id in gaps:
            raise KnownGapsError(f"{place}: {requirement_id} is listed twice; keep one of the two")
        if not reason:
            raise KnownGapsError(f"{place}: say after {requirement_id} why the gap is accepted")
        gaps[requirement_id] = reason
    return gaps


def new_list(name: str) -> str:
    """Give the text of a known-gaps file without any gap, for a subject."""
    return (
        f"# What {name} is known to break, one 'ID reason' a line.\n"
        "# `startup-plan gate --write-known-gaps` removes the lines of what no longer breaks,\n"
        "# adds new ones at the end, and leaves everything else as it is.\n"
    )


def updated(
    text: str, broken: Mapping[str, str], closed: Container[str], register: Register
) -> str:
    """Give the text of a known-gaps file after a run.

    Lines of gaps that were closed go, those of gaps that are still open, or were not judged, stay
    as they are, comments too; new gaps are added at the end.

    Args:
        text: what the file says now, or `new_list`.
        broken: what is violated, id to the story of it, which becomes the reason.
        closed: the ids that hold.
        register: whose order new lines follow.
    """
    kept, listed = [], set()
    for line in text.splitlines():
        match = _ENTRY.fullmatch(line.strip())
        found = match[1] if match and not line.strip().startswith("#") else None
        if found is None or found not in closed:
            kept.append(line)
            listed.add(found)
    new = [
        f"{requirement.id}  {_as_reason(broken[requirement.id])}"
        for requirement in register
        if requirement.id in broken and requirement.id not in listed
    ]
    return "".join(f"{line}\n" for line in (*kept, *new))


def describe_stale(stale: Sequence[str], source: object) -> str:
    """Say in one sentence that listed gaps are closed, and what to do about it."""
    if len(stale) == 1:
        return f"{stale[0]} is listed in {source} as a known gap and now holds: remove its line"
    ids = ", ".join(stale)
    return f"{ids} are listed in {source} as known gaps and now hold: remove their lines"


def _as_reason(story: str) -> str:
    # The end of a history says what went wrong.
    head = story.partition("\n")[0].rpartition("; ")[2]
    return textwrap.shorten(f"found by the gate: {head}", _REASON, placeholder=" …")


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"
