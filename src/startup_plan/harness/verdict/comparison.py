# SPDX-License-Identifier: Apache-2.0
"""What two judgements of the same sentences have in common, row by row.

Tests are compared one by one. What a test found on one side says nothing about the other unless it
ran to its end there: a difference is claimed only where both sides were tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, final, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["inherited", "new", "fixed", "other-evidence", "same", "not-comparable"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

KIND_WORDS: Final[Mapping[Kind, str]] = {
    "new": "new",
    "other-evidence": "violated in both, by other evidence",
    "inherited": "inherited",
    "fixed": "fixed",
    "not-comparable": "not comparable",
    "same": "the same",
}

FAILS: Final[frozenset[Kind]] = frozenset(("new", "other-evidence"))
"""What a subject is blamed for that is compared with a base."""

_TOLD: Final = 3


@final
@dataclass(frozen=True, slots=True)
class Row:
    """What is compared of the judgement of one requirement.

    Attributes:
        status: as in the report.
        tests: those that judge it.
        evidence: test to the kinds of what it found.
        untried: those of `tests` that did not come to an end about it.
    """

    status: str
    tests: frozenset[str]
    evidence: Mapping[str, frozenset[str]]
    untried: frozenset[str]

    @property
    def broken(self) -> bool:
        """Whether it is violated, accepted or not."""
        return self.status in ("violated", "known-gap")


@final
@dataclass(frozen=True)
class Side:
    """One of the two judgements: its rows by their ids."""

    rows: Mapping[str, Row]

    @cached_property
    def _passed(self) -> frozenset[str]:
        """The tests that came to their end and found nothing."""
        tests = {test for row in self.rows.values() for test in row.tests}
        for row in self.rows.values():
            tests -= row.untried | row.evidence.keys()
        return frozenset(tests)

    def tried(self, requirement_id: str, test: str) -> bool:
        """Whether a test came to its end about a requirement."""
        row = self.rows[requirement_id]
        # Any test may find any requirement broken, whatever it is there for.
        return test in self._passed or (test in row.tests and test not in row.untried)


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """One requirement on both sides.

    `words` say what is different or cannot be compared; "" where `kind` says all.
    """

    kind: Kind
    words: str = ""


def compare(requirement_id: str, here: Side, there: Side) -> Comparison:
    """Compare a requirement of a subject with that of its base."""
    mine = here.rows[requirement_id]
    if (theirs := there.rows.get(requirement_id)) is None:
        return Comparison("not-comparable", "the base was judged by a contract without it")
    missing = [
        where
        for where, row in (("here", mine), ("for the base", theirs))
        if row.status == "not-run"
    ]
    if missing:
        return Comparison("not-comparable", f"not run {' and '.join(missing)}")
    if not mine.broken:
        return _where_it_holds(requirement_id, theirs, here)
    found = {t: kinds for t, kinds in mine.evidence.items() if there.tried(requirement_id, t)}
    if not found:
        return Comparison("not-comparable", f"{_tests(len(mine.evidence))} here, not run there")
    if not theirs.broken:
        return Comparison("new")
    other = {t: k for t, kinds in found.items() if (k := kinds - theirs.evidence.get(t, set()))}
    if not other:
        return Comparison("inherited")
    told = [f"{_name(test)}: {', '.join(sorted(kinds))}" for test, kinds in sorted(other.items())]
    more = [f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []
    return Comparison("other-evidence", "; ".join([*told[:_TOLD], *more]))


def _where_it_holds(requirement_id: str, theirs: Row, here: Side) -> Comparison:
    if not theirs.broken:
        return Comparison("same")
    untried = [test for test in theirs.evidence if not here.tried(requirement_id, test)]
    if untried:
        return Comparison("not-comparable", f"{_tests(len(untried))} there, not run here")
    return Comparison("fixed")


def _tests(number: int) -> str:
    return f"broken by {number} test{'' if number == 1 else 's'}"


def _name(test: str) -> str:
    """The name of a test without its file."""
    return test.rpartition("::")[2]
