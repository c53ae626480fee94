# SPDX-License-Identifier: Apache-2.0
"""Subjects whose verdict is known, one data file each.

`faults/SLUG.toml` is a correct plan with one mistake in it, which breaks what the file names and
nothing else. `correct/SLUG.toml` breaks nothing. Both hold `title` and `description`, the `base`
that they change (the rewrite where it is left out), and a table `[[change]]` for each place of it
that is not as it was: `find` is a text that occurs there once, `replace` what stands there instead,
`file` the module of the reference that it is in. What they need of this machine is in `needs`. A
fault says besides which `requirement` catches it, in which others it may show (`consequences`), and
its `origin`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final, get_args

from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.register import load_register

if TYPE_CHECKING:
    from collections.abc import Container

Kind: TypeAlias = Literal["correct", "fault"]
Base: TypeAlias = Literal["rewrite", "reference"]

_HOME: Final = Path(__file__).parent
_FOLDERS: Final[dict[Kind, str]] = {"correct": "correct", "fault": "faults"}
_BOTH: Final = frozenset(("title", "description", "base", "needs", "change"))
_KEYS: Final[dict[Kind, frozenset[str]]] = {
    "correct": _BOTH,
    "fault": _BOTH | {"requirement", "consequences", "origin"},
}

_register = cache(load_register)


@final
class EntryError(ValueError):
    """An entry cannot be used; the message is one sentence that names its file."""


@final
@dataclass(frozen=True, slots=True)
class Change:
    """One place of a source that is not as it was.

    Attributes:
        find: what stands there, and nowhere else, once the changes before this one are made.
        replace: what takes its place.
        file: in which module of its base, "" where the base is a single one.
    """

    find: str
    replace: str
    file: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """What the zoo knows of one of its subjects.

    Attributes:
        slug: name of the data file.
        title: one short line.
        kind: "fault" breaks what it names, "correct" breaks nothing.
        requirement: the contract id that must catch it; None if it is correct.
        consequences: ids that may fail as well, because the same fault shows there.
        needs: capabilities without which nobody can see the fault.
        origin: where the fault comes from: a row of the issue table, or "measured".
        description: what was changed, and what happens to an engine because of it.
        changes: what makes the subject out of its base, in order.
        base: what is changed: "rewrite", one module, or "reference", a package.
    """

    slug: str
    title: str
    kind: Kind
    requirement: str | None = None
    consequences: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    origin: str = ""
    description: str
    changes: tuple[Change, ...] = ()
    base: Base = "rewrite"


def load_catalogue() -> dict[str, ZooEntry]:
    """Every subject of the zoo by its slug: first what is correct, then the faults.

    Raises:
        EntryError: a data file is wrong.
    """
    found: dict[str, ZooEntry] = {}
    for kind, folder in _FOLDERS.items():
        for path in sorted((_HOME / folder).glob("*.toml")):
            if path.stem in found:
                raise EntryError(f"{path.name}: both a fault and correct; give it another name")
            found[path.stem] = read_entry(path, kind)
    return found


def read_entry(path: Path, kind: Kind = "fault") -> ZooEntry:
    """Read and check one data file.

    Raises:
        EntryError: it is no entry.
    """
    try:
        return _entry(path.stem, kind, tomllib.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise EntryError(f"{path.name}: {error}") from error


def _entry(slug: str, kind: Kind, table: dict[str, Any]) -> ZooEntry:
    """A table as an entry.

    Raises:
        ValueError: it cannot be read as one.
    """
    if unknown := sorted(table.keys() - _KEYS[kind]):
        raise ValueError(f"unknown keys for {_FOLDERS[kind]}: {', '.join(unknown)}")
    requirement, origin = None, ""
    if kind == "fault":
        requirement, origin = _text(table, "requirement").strip(), _text(table, "origin").strip()
        if requirement not in _register():
            raise ValueError(f"requirement: {_register().describe_unknown(requirement)}")
        if not table.get("change"):
            raise ValueError("a fault has at least one [[change]]")
    consequences = _names(table, "consequences", _register(), "ids of requirements")
    if requirement in consequences:
        raise ValueError("consequences are what fails besides the requirement")
    base = table.get("base", "rewrite")
    if base not in get_args(Base):
        raise ValueError(f"base is one of {', '.join(get_args(Base))}, not {base!r}")
    changes = table.get("change", [])
    if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
        raise ValueError("changes are written [[change]], each with a find and a replace")
    return ZooEntry(
        slug=slug,
        title=_text(table, "title").strip(),
        kind=kind,
        requirement=requirement,
        consequences=consequences,
        needs=_names(table, "needs", capabilities.names(), "capabilities"),
        origin=origin,
        description=_text(table, "description").strip(),
        changes=tuple(_change(change, base) for change in changes),
        base=base,
    )


def _change(table: dict[str, Any], base: Base) -> Change:
    """A change of a file that `base` has.

    Raises:
        ValueError: it is none.
    """
    keys = {"find", "replace", "file"} if base == "reference" else {"find", "replace"}
    if unknown := sorted(table.keys() - keys):
        raise ValueError(f"unknown keys in a [[change]] of the {base}: {', '.join(unknown)}")
    file = _text(table, "file") if base == "reference" else ""
    return Change(_text(table, "find"), _text(table, "replace", or_empty=True), file)


def _names(table: dict[str, Any], key: str, known: Container[str], what: str) -> tuple[str, ...]:
    """A list of known names, empty if it is left out.

    Raises:
        ValueError: it is something else.
    """
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and v in known for v in value):
        raise ValueError(f"{key} is a list of {what}, not {value!r}")
    return tuple(value)


def _text(table: dict[str, Any], key: str, *, or_empty: bool = False) -> str:
    """A text that has to be there.

    Raises:
        ValueError: it is missing, empty or no text.
    """
    value = table.get(key)
    if not isinstance(value, str) or not (or_empty or value.strip()):
        raise ValueError(f"{key} is missing, empty or no text")
    return value
