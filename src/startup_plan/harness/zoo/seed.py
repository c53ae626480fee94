# SPDX-License-Identifier: Apache-2.0
"""From an entry of the zoo to its sources: those of its base, with the entry's changes made."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .catalogue import EntryError

if TYPE_CHECKING:
    from .catalogue import Base, ZooEntry

REWRITE: Final = Path(__file__).with_name("rewrite.py")
_REFERENCE: Final = Path(__file__).parents[2] / "reference"


def base_sources(base: Base) -> dict[str, str]:
    """The sources of a base, by the names of their files."""
    files = [REWRITE] if base == "rewrite" else sorted(_REFERENCE.glob("*.py"))
    return {file.name: file.read_text("utf-8") for file in files}


def sources_of(entry: ZooEntry) -> dict[str, str]:
    """The sources of a subject, by the names that their files have in its base.

    Raises:
        EntryError: a text that is to be replaced is not there once; the base has changed under the
            entry.
    """
    sources = base_sources(entry.base)
    for change in entry.changes:
        file = change.file or REWRITE.name
        count = sources.get(file, "").count(change.find)
        if count != 1:
            raise EntryError(
                f"{entry.slug}.toml: {change.find!r} occurs {count} times in {file}, not once; "
                "make the `find` of its [[change]] fit"
            )
        sources[file] = sources[file].replace(change.find, change.replace)
    return sources


def source_of(entry: ZooEntry) -> str:
    """The source of a subject that is one module.

    Raises:
        EntryError: it is a package, or as `sources_of`.
    """
    sources = sources_of(entry)
    if entry.base != "rewrite":
        raise EntryError(
            f"{entry.slug} is a package of {len(sources)} files; "
            f"`startup-plan zoo {entry.slug}` shows what is changed in the {entry.base}"
        )
    return sources[REWRITE.name]


def patch_of(entry: ZooEntry) -> list[str]:
    """What is changed, as the lines of a patch.

    Raises:
        EntryError: as `sources_of`.
    """
    before, after = base_sources(entry.base), sources_of(entry)
    return [
        line
        for name, text in before.items()
        for line in difflib.unified_diff(
            text.splitlines(), after[name].splitlines(), name, f"{entry.slug}/{name}", lineterm=""
        )
    ]


def write_subject(entry: ZooEntry, folder: Path) -> Path:
    """Write a subject into a folder, where it can be gated like any other; give its file.

    Raises:
        EntryError: as `sources_of`.
        OSError: the file cannot be written.
    """
    if entry.base == "rewrite":
        file = folder / f"{entry.slug}.py"
        file.write_text(source_of(entry), "utf-8")
        return file
    package = folder / entry.slug
    package.mkdir()
    for name, text in sources_of(entry).items():
        (package / name).write_text(text, "utf-8")
    return package / "__init__.py"
