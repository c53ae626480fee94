# SPDX-License-Identifier: Apache-2.0
"""What takes device memory, and why: the reviewed classification in `census.toml`."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.settings import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SECTION: Final = "section"
OWN_FACTOR: Final = frozenset({"budget", "own-factor"})
"""Reasons of what a key may carry as a factor of its own instead."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """The verdict on one field or variable.

    Attributes:
        why: name of its reason.
        text: the reason, a sentence.
        moves: whether it moves the measured memory; what is unsure does.
        unsure: whether reading the code settled it.
        at: file and line below vllm/ in the newest audited version that has it.
        note: what the reason does not say, or "".
        through: path of the field by which alone vLLM's hash sees it, or "".
        only: the one audited version that has it, or "" for all.
        hashed: version -> what vLLM's hash does, where that differs from the settings table.
    """

    why: str
    text: str
    moves: bool
    unsure: bool
    at: str
    note: str
    through: str
    only: str
    hashed: Mapping[str, bool]

    @property
    def sentence(self) -> str:
        """The reason and what there is to add to it."""
        return f"{self.text} {self.note}".rstrip()

    @property
    def verdict(self) -> str:
        """`moves`, `unsure` (which counts as moving), `idle` or `section`."""
        if self.why == SECTION:
            return SECTION
        if self.unsure:
            return "unsure"
        return "moves" if self.moves else "idle"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Classification:
    """The whole file.

    Attributes:
        oldest: the oldest vLLM version that was read.
        newest: the newest one.
        reasons: name -> (whether it moves memory, sentence).
        fields: (class, field) -> verdict.
        variables: name -> verdict.
    """

    oldest: str
    newest: str
    reasons: Mapping[str, tuple[bool, str]]
    fields: Mapping[tuple[str, str], Entry]
    variables: Mapping[str, Entry]

    def owners(self) -> frozenset[str]:
        """Every configuration class that is known."""
        return frozenset(owner for owner, _ in self.fields)

    def hashed(self, owner: str, field: str, version: str) -> bool:
        """Whether vLLM's hash moves with this field, by the data, in that version."""
        entry = self.fields[owner, field]
        told = entry.hashed.get(version, entry.hashed.get("", None))
        return _TABLE[owner, field] if told is None else told

    def without(self, names: Iterable[str]) -> Classification:
        """A copy that does not know `Class.field` or variables of these names."""
        gone = set(names)
        return dataclasses.replace(
            self,
            fields={key: e for key, e in self.fields.items() if ".".join(key) not in gone},
            variables={key: e for key, e in self.variables.items() if key not in gone},
        )


_TABLE: Final = {(row["owner"], row["path"].rpartition(".")[2]): row["hashed"] for row in ROWS}


@functools.cache
def load() -> Classification:
    """The classification that belongs to this package.

    Raises:
        KeyError: an entry names a reason that there is not; tests hold that there is none.
    """
    text = resources.files(__package__).joinpath("census.toml").read_text("utf-8")
    return parse(text)


def parse(text: str) -> Classification:
    """A classification from TOML.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML.
        KeyError: a key is missing, or an entry names a reason that there is not.
        ValueError: an entry has a key that nobody reads.
    """
    raw = tomllib.loads(text)
    reasons = {name: (row["moves"], row["text"]) for name, row in raw["reasons"].items()}
    return Classification(
        raw["oldest"],
        raw["newest"],
        reasons,
        {
            (owner, field): _entry(f"{owner}.{field}", row, reasons)
            for owner, rows in raw["fields"].items()
            for field, row in rows.items()
        },
        {name: _entry(name, row, reasons) for name, row in raw["variables"].items()},
    )


_KEYS: Final = frozenset({"why", "at", "unsure", "note", "through", "only", "hashed"})


def _entry(name: str, row: Mapping[str, Any], reasons: Mapping[str, tuple[bool, str]]) -> Entry:
    if unread := row.keys() - _KEYS:
        raise ValueError(f"{name} has {', '.join(sorted(unread))}, which nobody reads")
    moves, text = reasons[row["why"]]
    hashed = row.get("hashed", {})
    return Entry(
        row["why"],
        text,
        moves,
        row.get("unsure", False),
        row["at"],
        row.get("note", ""),
        row.get("through", ""),
        row.get("only", ""),
        {"": hashed} if isinstance(hashed, bool) else hashed,
    )
