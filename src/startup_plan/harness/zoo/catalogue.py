# SPDX-License-Identifier: Apache-2.0
"""Subjects whose verdict is known: a correct rewrite, and faults seeded into it.

Each subject is a module `SLUG.py` with a data file `SLUG.toml` beside it. A fault is the rewrite
with a few places of its text replaced, so that it breaks what it names and nothing else.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from startup_plan.harness.contract import capabilities

if TYPE_CHECKING:
    from types import CodeType

Kind: TypeAlias = Literal["correct", "fault"]

_FOLDER: Final = Path(__file__).with_name("faults")
_REWRITE: Final = Path(__file__).with_name("rewrite.py")
_ID: Final = re.compile(r"[A-Z]+-\d\d")
_KEYS: Final = frozenset(
    (
        "title",
        "kind",
        "requirement",
        "consequences",
        "needs",
        "origin",
        "description",
        "file_format",
    )
)


def seed(namespace: dict[str, Any], *substitutions: tuple[str, str]) -> None:
    """Run the rewrite, with some of its text replaced, as the module that calls.

    Args:
        namespace: the globals of the calling module; its `__name__` becomes the logger's.
        substitutions: pairs of a text that occurs exactly once in the rewrite, and what replaces
            it. Each sees what those before it have left.

    Raises:
        ValueError: a text occurs not once; the rewrite has changed under the fault.
        SyntaxError: what comes out is not Python.
    """
    exec(_compiled(substitutions), namespace)


@cache
def _compiled(substitutions: tuple[tuple[str, str], ...]) -> CodeType:
    """The code of the changed rewrite; compiled once, because a world runs it at every boot."""
    source = _REWRITE.read_text("utf-8")
    for find, replace in substitutions:
        count = source.count(find)
        if count != 1:
            raise ValueError(f"{find!r} occurs {count} times in {_REWRITE.name}, not once")
        source = source.replace(find, replace)
    mark = hashlib.sha256(repr(substitutions).encode()).hexdigest()[:8]
    file = f"<{_REWRITE.name} seeded {mark}>"
    # No such file exists, so tracebacks would have no text without this.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return compile(source, file, "exec", dont_inherit=True)


@final
class ZooEntry:
    """What the zoo knows of one of its subjects.

    Attributes:
        slug: name of the module and of its data file.
        title: one short line.
        kind: "fault" breaks what it names, "correct" breaks nothing.
        requirement: the contract id that must catch it; None if it is correct.
        consequences: ids that may fail as well, because the same fault shows there.
        needs: capabilities without which nobody can see the fault.
        origin: where the fault comes from: a row of the issue table, or "measured".
        description: what was changed, and what happens to an engine because of it.
        file: the module.
    """

    __slots__ = (
        "consequences",
        "description",
        "file",
        "kind",
        "needs",
        "origin",
        "requirement",
        "slug",
        "title",
    )

    def __init__(
        self,
        *,
        slug: str,
        title: str,
        kind: Kind,
        requirement: str | None,
        consequences: tuple[str, ...],
        needs: tuple[str, ...] = (),
        origin: str,
        description: str,
        file: Path,
    ) -> None:
        """See the class."""
        self.slug = slug
        self.title = title
        self.kind = kind
        self.requirement = requirement
        self.consequences = consequences
        self.needs = needs
        self.origin = origin
        self.description = description
        self.file = file

    def __repr__(self) -> str:
        """Name the entry and what it breaks, for pytest's ids and messages."""
        return f"ZooEntry({self.slug!r}, {self.requirement or self.kind})"


def load_catalogue() -> tuple[ZooEntry, ...]:
    """Every subject of the zoo, in the order of their slugs.

    Raises:
        ValueError: a data file is wrong or has no module, or a module has no data file.
    """
    data = sorted(_FOLDER.glob("*.toml"))
    known = {path.stem for path in data}
    for module in sorted(_FOLDER.glob("*.py")):
        if module.stem != "__init__" and module.stem not in known:
            raise ValueError(f"{module.name} has no {module.stem}.toml beside it")
    return tuple(_entry(path) for path in data)


def _entry(path: Path) -> ZooEntry:
    """One data file as an entry.

    Raises:
        ValueError: it cannot be read as one; the message names the file.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error
    unknown = sorted(table.keys() - _KEYS)
    if unknown:
        raise ValueError(f"{path.name}: unknown keys: {', '.join(unknown)}")
    kind: Kind
    match table.get("kind"):
        case "fault":
            kind = "fault"
        case "correct":
            kind = "correct"
        case other:
            raise ValueError(f'{path.name}: kind is "fault" or "correct", not {other!r}')
    file = _REWRITE if path.stem == _REWRITE.stem else path.with_suffix(".py")
    if not file.is_file():
        raise ValueError(f"{path.name}: {file.name} does not exist")
    requirement = table.get("requirement")
    if kind == "correct" and requirement is not None:
        raise ValueError(f"{path.name}: what is correct breaks no requirement")
    if kind == "fault" and not _is_id(requirement):
        raise ValueError(f"{path.name}: a fault names one requirement, not {requirement!r}")
    consequences = table.get("consequences", [])
    if not isinstance(consequences, list) or not all(map(_is_id, consequences)):
        raise ValueError(f"{path.name}: consequences is a list of ids, not {consequences!r}")
    if requirement in consequences or (kind == "correct" and consequences):
        raise ValueError(f"{path.name}: consequences are what fails besides the requirement")
    needs = table.get("needs", [])
    if not isinstance(needs, list) or not set(needs) <= set(capabilities.names()):
        raise ValueError(f"{path.name}: needs is a list of capabilities, not {needs!r}")
    return ZooEntry(
        slug=path.stem,
        title=_text(path, table, "title"),
        kind=kind,
        requirement=requirement,
        consequences=tuple(consequences),
        needs=tuple(needs),
        origin=_text(path, table, "origin") if kind == "fault" else "",
        description=_text(path, table, "description"),
        file=file,
    )


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _text(path: Path, table: dict[str, Any], key: str) -> str:
    """A text that has to be there.

    Raises:
        ValueError: it is missing, empty or no text.
    """
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{path.name}: {key} is missing or empty")
    return value.strip()
