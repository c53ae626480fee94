# SPDX-License-Identifier: Apache-2.0
"""What one test had to say, in a form that travels between processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple, final

Outcome = Literal["passed", "failed", "skipped"]

COUNTERS: Final = ("boots", "examples", "byte_variants")
"""The counts that every report carries, even at zero."""

NEVER_REACHED: Final = "never reached: "
"""How the story of a test begins that did not come to its point; it counts as skipped."""

_STORY_LINES: Final = 12
_STORY_CHARACTERS: Final = 2000


class Finding(NamedTuple):
    """One broken requirement, as a test told it.

    `evidence` names what was found so that it is named the same wherever it is found again; empty
    where the story says enough.
    """

    requirement: str
    story: str
    evidence: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Record:
    """The outcome of one test.

    Attributes:
        nodeid: pytest's name of the test.
        ids: the requirements that its marker names.
        outcome: what became of the test itself.
        violated: the requirements that it found broken; empty unless it failed.
        story: the counterexample of a failed test, the reason of a skipped one, otherwise "".
        told: whether the story was told by the test (a `Violation`) and not made up from an
            exception.
        undecided: whether its failure says nothing about the subject's sentences: the test did
            not come to its end, or nothing that it found can be trusted.
        lacks: the capability for want of which the test did not run, or None.
        findings: each violation that it told, where there are several or one names its evidence;
            otherwise `story` is that of each in `violated`.
        seconds: how long set-up, test and clean-up took.
        counters: what the test counted through the `tally` fixture.
        probed: the capabilities that were tried for it: name to (present, reason).
    """

    nodeid: str
    ids: tuple[str, ...]
    outcome: Outcome
    violated: tuple[str, ...] = ()
    story: str = ""
    told: bool = False
    undecided: bool = False
    lacks: str | None = None
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    probed: dict[str, tuple[bool, str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Write the record as one line of JSON."""
        return json.dumps(asdict(self))

    def found(self, requirement_id: str) -> tuple[Finding, ...]:
        """Give what the test told of one requirement that it found broken."""
        told = tuple(one for one in self.findings if one.requirement == requirement_id)
        return told or (Finding(requirement_id, self.story),)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Read what `to_json` wrote."""
        values: dict[str, Any] = json.loads(line)
        values["ids"] = tuple(values["ids"])
        values["violated"] = tuple(values["violated"])
        values["findings"] = tuple(
            Finding(requirement, story, tuple(evidence))
            for requirement, story, evidence in values["findings"]
        )
        values["probed"] = {name: tuple(answer) for name, answer in values["probed"].items()}
        return cls(**values)


def clean(text: str) -> str:
    """Make any text safe to print, to write as UTF-8, and to put into XML.

    Subjects are judged with hostile bytes, and their messages repeat them: control characters and
    lone surrogates come out as escapes, and what is too long is cut, visibly.
    """
    kept = "".join(character if _printable(character) else _escape(character) for character in text)
    lines = [line.rstrip() for line in kept.strip().splitlines()]
    if len(lines) > _STORY_LINES:
        lines = [*lines[:_STORY_LINES], "…"]
    short = "\n".join(lines)
    return short if len(short) <= _STORY_CHARACTERS else short[:_STORY_CHARACTERS] + "…"


def _printable(character: str) -> bool:
    return character.isprintable() or character == "\n"


def _escape(character: str) -> str:
    return "    " if character == "\t" else character.encode("unicode_escape").decode()
