# SPDX-License-Identifier: Apache-2.0
"""From an entry of the zoo to its source: the rewrite, with the entry's changes made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .catalogue import EntryError

if TYPE_CHECKING:
    from .catalogue import ZooEntry

REWRITE: Final = Path(__file__).with_name("rewrite.py")


def source_of(entry: ZooEntry) -> str:
    """The source of a subject.

    Raises:
        EntryError: a text that is to be replaced is not there once; the rewrite has changed
            under the entry.
    """
    source = REWRITE.read_text("utf-8")
    for change in entry.changes:
        count = source.count(change.find)
        if count != 1:
            raise EntryError(
                f"{entry.slug}.toml: {change.find!r} occurs {count} times in {REWRITE.name}, "
                "not once; make the `find` of its [[change]] fit"
            )
        source = source.replace(change.find, change.replace)
    return source


def write_subject(entry: ZooEntry, folder: Path) -> Path:
    """Write a subject into a folder, where it can be gated like any other; give its file.

    Raises:
        EntryError: as `source_of`.
        OSError: the file cannot be written.
    """
    file = folder / f"{entry.slug}.py"
    file.write_text(source_of(entry), "utf-8")
    return file
