# SPDX-License-Identifier: Apache-2.0
"""The register of requirements: what there is to judge, and how bad it is to break it."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast, final, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Level = Literal["unsafe", "costly", "hygiene"]

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""Worst first: the order of every matrix."""

CONTRACT: Final = Path(__file__).with_name("contract.toml")

_ID: Final = re.compile(r"[A-Z]+-\d\d")
_FIELDS: Final = frozenset({"level", "edition", "sentence", "awaits"})


class RegisterError(Exception):
    """The register cannot be used; the message is one sentence that names the place."""


@final
@dataclass(frozen=True, slots=True)
class Requirement:
    """One sentence of the contract.

    Attributes:
        id: the contract id ("KEY-02").
        level: what breaking it costs.
        sentence: what any subject owes.
        awaits: why no test of this release judges it, or None when tests do.
        edition: of the contract, in which the sentence came to be.
    """

    id: str
    level: Level
    sentence: str
    awaits: str | None = None
    edition: int = 1


@final
class Register:
    """Every requirement, in the order of the contract."""

    __slots__ = ("_by_id",)

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        """Take requirements whose ids are distinct."""
        self._by_id = {requirement.id: requirement for requirement in requirements}

    def __iter__(self) -> Iterator[Requirement]:
        """Go through the requirements in the order of the contract."""
        return iter(self._by_id.values())

    def __len__(self) -> int:
        """Count the requirements."""
        return len(self._by_id)

    def __contains__(self, requirement_id: object) -> bool:
        """Say whether an id is registered."""
        return requirement_id in self._by_id

    def __getitem__(self, requirement_id: str) -> Requirement:
        """Give the requirement of an id, or raise KeyError."""
        return self._by_id[requirement_id]

    def nearest(self, wrong_id: str) -> tuple[str, ...]:
        """Give up to three registered ids that someone who typed `wrong_id` may have meant."""
        return tuple(difflib.get_close_matches(wrong_id.upper(), self._by_id, n=3, cutoff=0.5))

    def describe_unknown(self, wrong_id: str) -> str:
        """Say in one sentence that an id is unknown, and which known ones are near."""
        near = self.nearest(wrong_id)
        known = f"the nearest are {', '.join(near)}" if near else f"they look like {self._example}"
        return f"unknown requirement id {wrong_id!r}: {known}"

    @property
    def _example(self) -> str:
        return next(iter(self._by_id), "KEY-01")


def load_register(path: Path = CONTRACT) -> Register:
    """Read and check a register.

    Raises:
        RegisterError: when the file cannot be read or an entry is malformed.
    """
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise RegisterError(f"the register {path} cannot be read: {error}") from error
    if not tables:
        raise RegisterError(f"the register {path} is empty")
    return Register(_requirement(path, name, table) for name, table in tables.items())


def _requirement(path: Path, name: str, table: object) -> Requirement:
    if not _ID.fullmatch(name):
        raise RegisterError(f"{path}: {name!r} is no requirement id; they look like 'KEY-01'")
    if not isinstance(table, dict):
        raise RegisterError(f"{path}: {name} must be a table with a level and a sentence")
    if unknown := sorted(table.keys() - _FIELDS):
        raise RegisterError(f"{path}: {name} has an unknown field {unknown[0]!r}")
    level, sentence, awaits = (table.get(field) for field in ("level", "sentence", "awaits"))
    if level not in LEVELS:
        raise RegisterError(f"{path}: the level of {name} must be one of {', '.join(LEVELS)}")
    if not isinstance(sentence, str) or not sentence.strip():
        raise RegisterError(f"{path}: {name} has no sentence")
    if awaits is not None and (not isinstance(awaits, str) or not awaits.strip()):
        raise RegisterError(f"{path}: {name} says `awaits` without a reason")
    edition = table.get("edition", 1)
    if type(edition) is not int or edition < 1:
        raise RegisterError(f"{path}: the edition of {name} is a positive number, not {edition!r}")
    return Requirement(name, cast("Level", level), sentence, awaits, edition)
