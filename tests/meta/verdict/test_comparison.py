# SPDX-License-Identifier: Apache-2.0
"""A judgement beside that of a base: what is new, and what cannot be compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from tests.forms import check_form

from startup_plan.harness.verdict.base import BaseError, base_of, read_base
from startup_plan.harness.verdict.html import render_html
from startup_plan.harness.verdict.json_form import as_dict, render_json
from startup_plan.harness.verdict.judgement import Evidence
from startup_plan.harness.verdict.junit import render_junit
from startup_plan.harness.verdict.record import Finding, Record
from startup_plan.harness.verdict.terminal import closing, comparison, header, matrix

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.meta.conftest import Judge

    from startup_plan.harness.verdict.base import Base
    from startup_plan.harness.verdict.judgement import Report
    from startup_plan.harness.verdict.terminal import Line


def passed(test: str, *ids: str) -> Record:
    """A test of the first id, or of several, that found nothing."""
    return Record(test, ids or ("KEY-01",), "passed")


def broken(test: str, story: str, *ids: str) -> Record:
    """A test that found the first id violated, or several."""
    ids = ids or ("KEY-01",)
    return Record(test, ids, "failed", violated=ids, story=story, told=True)


def skipped(test: str, *ids: str) -> Record:
    """A test that did not run."""
    return Record(test, ids or ("KEY-01",), "skipped", story="capability vllm: absent")


HUNG, RAISED = "boot 1 saved 2 GiB; the look-up hung", "it raised ValueError: no"

CASES: dict[str, tuple[list[Record], list[Record], str]] = {
    "same test and kind": (
        [broken("a", "3 boots; it hung")],
        [broken("a", "it hung")],
        "inherited",
    ),
    "only the first violates": ([passed("a")], [broken("a", HUNG)], "new"),
    "only the base violates": ([broken("a", HUNG)], [passed("a")], "fixed"),
    "neither": ([passed("a")], [passed("a")], "same"),
    "another test": (
        [broken("a", HUNG), passed("b")],
        [broken("a", HUNG), broken("b", HUNG)],
        "other-evidence",
    ),
    "another kind": ([broken("a", HUNG)], [broken("a", RAISED)], "other-evidence"),
    "fewer tests": (
        [broken("a", HUNG), broken("b", HUNG)],
        [broken("a", HUNG), passed("b")],
        "inherited",
    ),
    "not run there": ([skipped("a")], [broken("a", HUNG)], "not-comparable"),
    "not run here": ([broken("a", HUNG)], [skipped("a")], "not-comparable"),
    "broken by what did not run there": (
        [passed("a"), skipped("b")],
        [passed("a"), broken("b", HUNG)],
        "not-comparable",
    ),
    "broken there by what did not run here": (
        [passed("a"), broken("b", HUNG)],
        [passed("a"), skipped("b")],
        "not-comparable",
    ),
    "old, and more by what did not run there": (
        [broken("a", HUNG), skipped("b")],
        [broken("a", HUNG), broken("b", RAISED)],
        "inherited",
    ),
    "found by a test of another sentence that passed there": (
        [passed("a"), passed("x", "KEY-02")],
        [passed("a"), Record("x", ("KEY-02",), "failed", ("KEY-01",), HUNG, told=True)],
        "new",
    ),
    "found by a test that stopped before that there": (
        [passed("a"), broken("x", HUNG, "KEY-02")],
        [passed("a"), Record("x", ("KEY-02",), "failed", ("KEY-01",), HUNG, told=True)],
        "not-comparable",
    ),
    "undecided there": (
        [Record("a", ("KEY-01",), "failed", story="it died", undecided=True)],
        [broken("a", HUNG)],
        "not-comparable",
    ),
}


def against(judge: Judge, there: Iterable[Record], *here: Record, **options: Any) -> Report:
    """Judge records against a base of other records."""
    return judge(*here, base=base_of(as_dict(judge(*there)), "theirs"), **options)


def kind_of(report: Report, requirement_id: str = "KEY-01") -> tuple[str, str]:
    """Give how a requirement compares, and the words for it."""
    (found,) = [r.against for r in report.results if r.requirement.id == requirement_id]
    assert found is not None
    return found.kind, found.words


@pytest.mark.parametrize("name", CASES)
def test_rows_are_compared_where_both_sides_ran(judge: Judge, name: str) -> None:
    """New, fixed and other evidence are claimed only by tests that came to an end on both sides."""
    there, here, wanted = CASES[name]
    report = against(judge, there, *here)

    assert (kind_of(report)[0], report.exit_status) == (
        wanted,
        int(wanted in ("new", "other-evidence")),
    )


def test_other_evidence_names_the_test_and_what_it_found(judge: Judge) -> None:
    """What is broken in both in other ways says which test found what, and hides nothing."""
    report = against(judge, [broken("f.py::a", HUNG)], broken("f.py::a", RAISED))

    assert kind_of(report) == ("other-evidence", "a: it raised")


def test_told_evidence_is_compared_one_by_one(judge: Judge) -> None:
    """A test that names what it found is compared by the names, not by its story."""

    def missing(*settings: str) -> Record:
        story = f"{len(settings)} settings do not move the key"
        finding = Finding("KEY-01", story, settings)
        return Record("a", ("KEY-01",), "failed", ("KEY-01",), story, findings=(finding,))

    there = [missing("block_size", "dtype")]

    assert [
        kind_of(against(judge, there, missing(*found))) for found in (("dtype",), ("seed",))
    ] == [
        ("inherited", ""),
        ("other-evidence", "a: seed"),
    ]


def test_a_base_of_another_edition_is_not_comparable(judge: Judge) -> None:
    """A sentence that the base's contract did not have is neither new nor fixed."""
    report = as_dict(judge(passed("a")))
    report["requirements"] = [r for r in report["requirements"] if r["id"] != "KEY-01"]
    found = judge(broken("a", HUNG), base=base_of(report, "old"))

    assert (kind_of(found), found.exit_status) == (
        ("not-comparable", "the base was judged by a contract without it"),
        0,
    )


def test_a_known_gap_is_accepted_on_both_sides(judge: Judge) -> None:
    """A known gap of the subject never fails; one of the base counts as violated there."""
    gaps = {"KEY-01": "later"}
    accepted = base_of(as_dict(judge(broken("a", HUNG), gaps=gaps)), "theirs")
    ours = against(judge, [passed("a")], broken("a", HUNG), gaps=gaps)
    theirs = judge(broken("a", HUNG), base=accepted)

    assert [(kind_of(r)[0], r.exit_status) for r in (ours, theirs)] == [
        ("new", 0),
        ("inherited", 0),
    ]


def test_a_closed_gap_stays_an_error_beside_a_base(judge: Judge) -> None:
    """What is fixed is good news against a base, and a stale line in a known-gaps file."""
    fixed = against(judge, [broken("a", HUNG)], passed("a"))
    stale = against(judge, [broken("a", HUNG)], passed("a"), gaps={"KEY-01": "later"})

    assert [(kind_of(r)[0], r.exit_status) for r in (fixed, stale)] == [("fixed", 0), ("fixed", 2)]


def _text(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


@pytest.fixture
def compared(judge: Judge) -> Report:
    """A judgement with something new, something inherited and something that did not run."""
    there = [passed("a"), broken("b", HUNG, "KEY-02"), skipped("c", "LOG-01")]
    return against(
        judge, there, broken("a", HUNG), broken("b", HUNG, "KEY-02"), passed("c", "LOG-01")
    )


def test_the_terminal_leads_with_what_is_new(compared: Report) -> None:
    """New violations stand first, with their story; what both have is a line of ids."""
    first = _text(comparison(compared, 100))
    folded, full = (_text(matrix(compared, 100, in_full=v)) for v in (False, True))

    assert ("VIOLATED   KEY-01" in first, HUNG in first, "inherited" in first) == (True, True, True)
    assert ("not comparable       LOG-01: not run for the base" in first) is True
    assert ("KEY-01 KEY-02: compared above" in folded, "VIOLATED   KEY-02" in full) == (True, True)
    assert "against  theirs, version 1.2, out of a report" in _text(header(compared))


def test_the_verdict_says_what_is_new(compared: Report) -> None:
    """The last line counts each way of comparing, and names the ids that fail."""
    assert _text(closing(compared)).splitlines()[-1] == (
        "some/plan.py BREAKS 2 of the 3 requirements that ran, 2 of them unsafe (KEY-01, KEY-02); "
        "against theirs: 1 inherited, 1 new (KEY-01), 1 not comparable; 1 not run"
    )


def test_every_form_tells_the_comparison(compared: Report) -> None:
    """JSON says it for each row and for the base; JUnit fails only for what is new; HTML shows."""
    report = json.loads(render_json(compared))
    check_form(report, "startup-plan/gate/2")
    root = ET.fromstring(render_junit(compared))  # noqa: S314
    page = render_html(compared)

    assert {r["id"]: r["against"] for r in report["requirements"]} == {
        "LOG-01": "not-comparable",
        "KEY-01": "new",
        "KEY-02": "inherited",
        "SAVE-06": "not-comparable",
    }
    assert (report["against"]["name"], report["summary"]["against"]["new"]) == ("theirs", 1)
    assert [
        case.attrib["name"] for case in root.iter("testcase") if case.find("failure") is not None
    ] == ["KEY-01"]
    assert (root.attrib["failures"], root.attrib["skipped"]) == ("1", "2")
    assert ("inherited" in page, "out of a report" in page) == (True, True)


def test_a_report_without_a_base_says_so(judge: Judge) -> None:
    """Without a base there is null in its place, for the report and for each row."""
    report = as_dict(judge(passed("a")))

    assert (report["against"], {r["against"] for r in report["requirements"]}) == (None, {None})


def test_what_is_not_the_same_is_said(judge: Judge) -> None:
    """Another suite, profile, version or capability of the base is told in a line each."""
    report = as_dict(judge(passed("a"), evidence=Evidence(probed={"vllm": (False, "absent")})))
    report["suite"] |= {"version": "0.0.9", "profile": "quick"}
    report["environment"]["python"] = "3.10"
    found = judge(
        passed("a"),
        evidence=Evidence(probed={"vllm": (True, "there")}),
        base=base_of(report, "old"),
    )
    assert found.base is not None

    assert found.base.differences(found.suite, found.environment) == (
        "suite 0.0.9 there, 0.1.0 here",
        "profile quick there, ci here",
        "capability vllm absent there, present here",
        "python 3.10 there, 3.11 here",
    )


def _cut(report: dict[str, Any]) -> None:
    del report["requirements"][0]["evidence"]


def _other_form(report: dict[str, Any]) -> None:
    report["schema"] = "startup-plan/gate/1"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_cut, "is a report without all that is compared (KeyError: 'evidence')"),
        (_other_form, "has the form 'startup-plan/gate/1', and not startup-plan/gate/2"),
        (dict.clear, "is no report"),
    ],
)
def test_what_cannot_be_compared_with_is_refused(
    judge: Judge, tmp_path: Path, spoil: Any, words: str
) -> None:
    """A report that lacks what is compared, or is of another form, is a sentence."""
    report, file = as_dict(judge(passed("a"))), tmp_path / "r.json"
    spoil(report)
    file.write_text(json.dumps(report))

    with pytest.raises(BaseError) as caught:
        read_base(file, "r.json")

    assert words in str(caught.value)


def test_a_report_survives_its_file(judge: Judge, tmp_path: Path) -> None:
    """A base out of a file is the one that was written."""
    report, file = judge(broken("a", HUNG)), tmp_path / "r.json"
    file.write_text(render_json(report))

    def rows(base: Base) -> object:
        return base.side.rows

    assert rows(read_base(file, "r")) == rows(base_of(as_dict(report), "r"))
