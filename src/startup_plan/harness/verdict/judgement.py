# SPDX-License-Identifier: Apache-2.0
"""From what the tests said to one judgement for each requirement, and one for the subject."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, final, get_args

from startup_plan.harness.contract.control import capability_of

from .comparison import FAILS, KIND_WORDS, KINDS, Row, Side, compare
from .record import COUNTERS, NEVER_REACHED
from .stories import kind_of, without_noise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from startup_plan.harness.contract.register import Level, Register, Requirement

    from .base import Base
    from .comparison import Comparison, Kind
    from .record import Finding, Outcome, Record

Status = Literal["holds", "violated", "known-gap", "not-run"]

ALSO: Final = 2
"""Further stories of one requirement that are told in brief."""

UNDECIDED: Final = "cannot be judged: "
"""How the reason begins where a run could not come to a judgement."""

LEFT_OUT: Final = "not asked for"
"""The reason of what `--only` leaves out."""

STATUSES: Final[tuple[Status, ...]] = get_args(Status)


@final
@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What was judged, with the proof: where it was loaded from and what its bytes were."""

    name: str
    file: str
    sha256: str
    version: str


@final
@dataclass(frozen=True, slots=True)
class SuiteFacts:
    """Which suite judged, and how hard it tried; `seed` is None for a deterministic profile."""

    version: str
    profile: str
    seed: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Terms:
    """By what a subject is judged.

    Attributes:
        register: what there is to judge.
        only: the ids to which the run is limited; empty for all.
        gaps: accepted violations, id to reason.
        required: capabilities whose absence fails the run.
        base: what the subject is compared with, or None.
    """

    register: Register
    only: tuple[str, ...] = ()
    gaps: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    base: Base | None = None


@final
@dataclass(slots=True)
class Evidence:
    """Everything that a run brought to light, whole or cut short.

    Attributes:
        catalogue: every selected test and the requirements that it carries.
        records: what each finished test had to say, by its node id.
        running: tests that have begun and not finished.
        partial: why the run was cut short, or None.
        seconds: how long the whole run took.
        probed: capabilities that were tried, whoever asked: name to (present, reason).
    """

    catalogue: dict[str, tuple[str, ...]] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    partial: str | None = None
    seconds: float = 0.0
    probed: dict[str, tuple[bool, str]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Take in what a finished test had to say."""
        self.records[record.nodeid] = replace(
            record,
            story=without_noise(record.story),
            findings=tuple(f._replace(story=without_noise(f.story)) for f in record.findings),
        )
        self.running.discard(record.nodeid)
        self.probed.update(record.probed)


@final
@dataclass(frozen=True, slots=True)
class Result:
    """The judgement of one requirement.

    `counterexample` is the story of a violation, or the reason for which nothing was judged, and
    None for a requirement that holds. `evidence` has the tests that found it broken, each with the
    kinds of what it found; `untried` those of `tests` that did not come to an end about it.
    `against` is None where there is no base.
    """

    requirement: Requirement
    status: Status
    tests: tuple[str, ...]
    counterexample: str | None
    seconds: float
    evidence: Mapping[str, frozenset[str]] = field(default_factory=dict)
    untried: tuple[str, ...] = ()
    against: Comparison | None = None

    @property
    def fails(self) -> bool:
        """Whether the run fails for it: it is violated, and not for the base as well."""
        return self.status == "violated" and (self.against is None or self.against.kind in FAILS)


@final
@dataclass(frozen=True, slots=True)
class Report:
    """The judgement of a subject, ready to be rendered.

    Attributes:
        results: one for each requirement of the register, in its order.
        undecided: requirements about which the run could not come to a judgement.
        stale: known gaps that hold.
        lacking: capabilities that were required and are absent, and controls of required ones that
            did not behave: name to reason.
        outcomes: how many tests passed, failed and were skipped.
        besides: what `--only` leaves out and was seen to be violated on the way: id to story.
        base: what the subject is compared with, or None.
    """

    subject: SubjectFacts
    suite: SuiteFacts
    environment: Mapping[str, object]
    results: tuple[Result, ...]
    undecided: tuple[str, ...]
    stale: tuple[str, ...]
    lacking: Mapping[str, str]
    counters: Mapping[str, int]
    outcomes: Mapping[Outcome, int]
    seconds: float
    partial: str | None = None
    besides: Mapping[str, str] = field(default_factory=dict)
    base: Base | None = None

    def compared(self, kind: Kind) -> tuple[Result, ...]:
        """Give the results that compare with the base in one way."""
        return tuple(r for r in self.results if r.against is not None and r.against.kind == kind)

    @property
    def failing(self) -> tuple[Result, ...]:
        """What the run fails for: all that is violated, or where there is a base what is new."""
        return tuple(result for result in self.results if result.fails)

    def having(self, status: Status, level: Level | None = None) -> tuple[Result, ...]:
        """Give the results of one status, of one level when it is named."""
        return tuple(
            result
            for result in self.results
            if result.status == status and level in (None, result.requirement.level)
        )

    def count(self, level: Level | None = None) -> dict[Status, int]:
        """Count the results by status, of one level when it is named."""
        return {status: len(self.having(status, level)) for status in STATUSES}

    @property
    def exit_status(self) -> int:
        """1 if violated or required and absent, 4 if undecided, 2 for a stale gap, otherwise 0.

        With a base only what is new, or violated by other evidence, counts as violated.
        """
        if self.failing or self.lacking:
            return 1
        if self.undecided:
            return 4
        return 2 if self.stale else 0

    @property
    def remark(self) -> str:
        """That the judgement stands on a release of vLLM that was never tried, or ""."""
        untried, probed = self.environment.get("vllm_untried"), self.environment["capabilities"]
        assert isinstance(probed, dict)
        stood = [row["present"] for name, row in probed.items() if name.startswith("vllm/")]
        if not untried or not stood:
            return ""
        return f"{untried}; its controls {'behave' if all(stood) else 'do not all behave'}"

    @property
    def verdict(self) -> str:
        """The whole judgement in one line."""
        number = self.count()
        judged = len(self.results) - number["not-run"]
        clauses = [self._main_clause(judged)]
        if self.base is not None:
            clauses.append(self._comparison_clause(self.base))
        if gaps := number["known-gap"]:
            clauses.append(f"{gaps} known gap{_s(gaps)}")
        if number["not-run"]:
            clauses.append(f"{number['not-run']} not run")
        if self.undecided:
            clauses.append(f"cannot be judged: {', '.join(self.undecided)}")
        if self.lacking:
            clauses.append(f"required and absent: {', '.join(self.lacking)}")
        if self.stale:
            clauses.append(f"known gaps that hold: {', '.join(self.stale)}")
        line = "; ".join(clauses)
        return f"PARTIAL ({self.partial}): {line}" if self.partial else line

    def _comparison_clause(self, base: Base) -> str:
        told = []
        for kind in KINDS:
            # What holds on both sides, and was run on neither, is no news.
            results = [r for r in self.compared(kind) if r.status != "not-run" and kind != "same"]
            if results:
                ids = ", ".join(r.requirement.id for r in results)
                named = f" ({ids})" if kind in FAILS or kind == "fixed" else ""
                told.append(f"{len(results)} {KIND_WORDS[kind]}{named}")
        return f"against {base.name}: {', '.join(told) or 'no difference'}"

    def _main_clause(self, judged: int) -> str:
        violated = self.having("violated")
        if not judged:
            return f"{self.subject.name}: nothing was judged"
        ran = f"{judged} requirement{_s(judged)} that ran"
        if not violated:
            return f"{self.subject.name} breaks none of the {ran}"
        worst = len(self.having("violated", "unsafe"))
        unsafe = f", {worst} of them unsafe" if worst else ", none of them unsafe"
        ids = ", ".join(result.requirement.id for result in violated)
        return f"{self.subject.name} BREAKS {len(violated)} of the {ran}{unsafe} ({ids})"


def build_report(
    terms: Terms,
    evidence: Evidence,
    *,
    subject: SubjectFacts,
    suite: SuiteFacts,
    environment: Mapping[str, object],
) -> Report:
    """Judge every requirement of the register by the evidence of a run.

    Args:
        terms: by what it is judged.
        evidence: what the run brought to light.
        subject: what was judged.
        suite: what judged.
        environment: facts about the machine, for the reader of the report.
    """
    results = tuple(_judge(requirement, evidence, terms) for requirement in terms.register)
    if terms.base is not None:
        results = _compared(results, terms.base.side)
    counters = Counter(dict.fromkeys(COUNTERS, 0))
    outcomes: Counter[Outcome] = Counter({"passed": 0, "failed": 0, "skipped": 0})
    for record in evidence.records.values():
        counters.update(record.counters)
        outcomes[record.outcome] += 1
    probed = {
        name: {"present": present, "reason": reason}
        for name, (present, reason) in sorted(evidence.probed.items())
    }
    return Report(
        subject=subject,
        suite=suite,
        environment={**environment, "capabilities": probed},
        results=results,
        undecided=tuple(
            result.requirement.id
            for result in results
            if (result.counterexample or "").startswith(UNDECIDED)
        ),
        stale=tuple(
            result.requirement.id
            for result in results
            if result.status == "holds" and result.requirement.id in terms.gaps
        ),
        lacking={
            name: reason
            for name, (present, reason) in sorted(evidence.probed.items())
            if capability_of(name) in terms.required and not present
        },
        counters=dict(counters),
        outcomes=dict(outcomes),
        seconds=evidence.seconds,
        partial=evidence.partial,
        besides=_seen_besides(evidence, terms),
        base=terms.base,
    )


def _compared(results: tuple[Result, ...], there: Side) -> tuple[Result, ...]:
    here = Side(
        {
            result.requirement.id: Row(
                result.status, frozenset(result.tests), result.evidence, frozenset(result.untried)
            )
            for result in results
        }
    )
    return tuple(replace(r, against=compare(r.requirement.id, here, there)) for r in results)


def _seen_besides(evidence: Evidence, terms: Terms) -> dict[str, str]:
    """What was not asked for and is violated all the same, unless it is a known gap."""
    seen: dict[str, list[Record]] = {}
    for record in evidence.records.values() if terms.only else ():
        for broken in record.violated:
            if broken not in terms.only and broken not in terms.gaps:
                seen.setdefault(broken, []).append(record)
    return {broken: _told_together(broken, records) for broken, records in sorted(seen.items())}


def _judge(requirement: Requirement, evidence: Evidence, terms: Terms) -> Result:
    wanted = requirement.id
    selected = {nodeid for nodeid, ids in evidence.catalogue.items() if wanted in ids}
    records = [
        record
        for nodeid, record in evidence.records.items()
        if nodeid in selected or wanted in record.ids or wanted in record.violated
    ]
    tests = tuple(sorted(selected | {record.nodeid for record in records}))
    seconds = round(sum(record.seconds for record in records), 6)
    if terms.only and wanted not in terms.only:
        # Some of its tests may have run for the sake of another id; that judges half of it.
        return Result(requirement, "not-run", tests, LEFT_OUT, seconds, untried=tests)
    status, words = _status(requirement, evidence, tests, records)
    if wanted in terms.gaps and status == "violated":
        status, words = "known-gap", f"{words}\nknown gap: {terms.gaps[wanted]}"
    return Result(
        requirement, status, tests, words, seconds,
        evidence={r.nodeid: _kinds(wanted, r) for r in records if wanted in r.violated},
        untried=tuple(test for test in tests if not _came_to_an_end(wanted, evidence, test)),
    )  # fmt: skip


def _kinds(wanted: str, record: Record) -> frozenset[str]:
    told = record.found(wanted)
    return frozenset(kind for one in told for kind in one.evidence or (kind_of(one.story),))


def _came_to_an_end(wanted: str, evidence: Evidence, test: str) -> bool:
    """Whether a test found out about a requirement, and did not stop before."""
    record = evidence.records.get(test)
    return record is not None and (record.outcome == "passed" or wanted in record.violated)


def _status(
    requirement: Requirement,
    evidence: Evidence,
    tests: tuple[str, ...],
    records: list[Record],
) -> tuple[Status, str | None]:
    wanted = requirement.id
    if broken := [record for record in records if wanted in record.violated]:
        return "violated", _told_together(wanted, broken)
    if undecided := [record for record in records if record.undecided]:
        return "not-run", f"{UNDECIDED}{min(record.story for record in undecided)}"
    if unfinished := len(tests) - len(records):
        return "not-run", _unfinished(evidence, tests, unfinished)
    if missed := [record for record in records if record.story.startswith(NEVER_REACHED)]:
        return "not-run", min(record.story for record in missed)
    if any(record.outcome == "passed" for record in records):
        return "holds", None
    if reasons := {record.story for record in records if record.outcome == "skipped"}:
        return "not-run", "; ".join(sorted(reasons))
    if lacking := {record.story for record in records if record.lacks is not None}:
        return "not-run", "; ".join(sorted(lacking))
    if records:
        others = sorted({other for record in records for other in record.violated})
        return "not-run", f"its test stopped at a violation of {', '.join(others)}"
    return "not-run", requirement.awaits or "no test of this run judges it"


def _told_together(wanted: str, broken: list[Record]) -> str:
    """The shortest story, and the first lines of the next ones where they tell something else."""
    pairs = [(record, finding) for record in broken for finding in record.found(wanted)]
    (_, first), *others = sorted(pairs, key=_shortest)
    heads = dict.fromkeys(found.story.partition("\n")[0] for record, found in others if record.told)
    heads.pop(first.story.partition("\n")[0], None)
    return "\n".join([first.story, *(f"also: {head}" for head in list(heads)[:ALSO])])


def _shortest(pair: tuple[Record, Finding]) -> tuple[bool, int, str, str]:
    record, finding = pair
    return not record.told, len(finding.story), finding.story, record.nodeid


def _unfinished(evidence: Evidence, tests: tuple[str, ...], unfinished: int) -> str:
    why = evidence.partial or "the run ended early"
    words = f"{why}: {unfinished} of its {len(tests)} test{_s(len(tests))} had not finished"
    running = sorted(evidence.running.intersection(tests))
    return f"{words}; {running[0]} was running" if running else words


def _s(number: int) -> str:
    return "" if number == 1 else "s"
