# SPDX-License-Identifier: Apache-2.0
"""From what tests said to a judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.verdict.judgement import LEFT_OUT, Evidence
from startup_plan.harness.verdict.record import Record, clean

if TYPE_CHECKING:
    from tests.meta.conftest import Judge

    from startup_plan.harness.verdict.judgement import Report

PASSED = Record("t::passed", ("KEY-01",), "passed", seconds=0.25, counters={"boots": 3})
BROKEN = Record("t::broken", ("KEY-02",), "failed", violated=("KEY-02",), story="a story")
ABSENT = Record(
    "t::absent",
    ("LOG-01",),
    "skipped",
    story="capability redis: not installed",
    lacks="redis",
    probed={"redis": (False, "not installed")},
)


def status_of(report: Report, requirement_id: str) -> tuple[str, str | None]:
    """Give the status of a requirement and the words that go with it."""
    (result,) = [r for r in report.results if r.requirement.id == requirement_id]
    return result.status, result.counterexample


def test_requirement_holds_when_its_tests_passed(judge: Judge) -> None:
    """A requirement whose tests passed holds, and has no counterexample."""
    assert status_of(judge(PASSED), "KEY-01") == ("holds", None)


def test_one_failure_among_passes_violates(judge: Judge) -> None:
    """A single failed test outweighs any number of passed ones."""
    failed = Record("t::f", ("KEY-01",), "failed", violated=("KEY-01",), story="a story")

    assert status_of(judge(PASSED, failed), "KEY-01") == ("violated", "a story")


def test_violation_of_one_id_spares_the_others_of_the_test(judge: Judge) -> None:
    """A test of two requirements that broke one leaves the other to its other tests."""
    both = Record("t::both", ("KEY-01", "KEY-02"), "failed", violated=("KEY-02",), story="s")

    assert (status_of(judge(both, PASSED), "KEY-01"), status_of(judge(both), "KEY-01")) == (
        ("holds", None),
        ("not-run", "its test stopped at a violation of KEY-02"),
    )


def test_violation_found_by_a_foreign_test_counts(judge: Judge) -> None:
    """A test may find a requirement broken that its marker does not name."""
    foreign = Record("t::x", ("KEY-01",), "failed", violated=("KEY-02",), story="s")
    report = judge(foreign)
    (result,) = report.having("violated")

    assert (result.requirement.id, result.tests) == ("KEY-02", ("t::x",))


def test_shortest_told_story_is_shown(judge: Judge) -> None:
    """The shortest story comes first, a told one before a made-up one; others in brief."""
    stories = [("raised X", False), ("a longer story", True), ("a story", True)]
    records = [
        Record(f"t{n}", ("KEY-01",), "failed", violated=("KEY-01",), story=story, told=told)
        for n, (story, told) in enumerate(stories)
    ]

    assert status_of(judge(*records), "KEY-01") == (
        "violated",
        "a story\nalso: a longer story",
    )


def test_not_run_gives_its_reason(judge: Judge) -> None:
    """What was not judged says why: no capability, an awaited part, or no test at all."""
    report = judge(ABSENT)

    assert [status_of(report, name) for name in ("LOG-01", "SAVE-06", "KEY-01")] == [
        ("not-run", "capability redis: not installed"),
        ("not-run", "the model of crashes"),
        ("not-run", "no test of this run judges it"),
    ]


def test_required_and_absent_fails_the_run(judge: Judge) -> None:
    """A capability that is required and absent fails the run, and breaks no requirement."""
    failed = Record(
        "t", ("LOG-01",), "failed", story="required capability redis: none", lacks="redis"
    )
    evidence = Evidence(probed={"redis": (False, "none")})
    report = judge(failed, evidence=evidence, required=("redis",))

    assert (report.exit_status, report.lacking, status_of(report, "LOG-01")) == (
        1,
        {"redis": "none"},
        ("not-run", "required capability redis: none"),
    )


def test_required_and_present_passes(judge: Judge) -> None:
    """A capability that is required and present is nothing to complain about."""
    evidence = Evidence(probed={"redis": (True, "there")})

    assert judge(PASSED, evidence=evidence, required=("redis",)).exit_status == 0


def test_only_claims_nothing_about_the_rest(judge: Judge) -> None:
    """With `--only`, an id that was not asked for never holds, though some of its tests ran."""
    both = Record("t::both", ("KEY-01", "KEY-02"), "passed")
    report = judge(both, only=("KEY-01",))

    assert (status_of(report, "KEY-01"), status_of(report, "KEY-02")) == (
        ("holds", None),
        ("not-run", LEFT_OUT),
    )


def test_unfinished_requirement_does_not_hold(judge: Judge) -> None:
    """In a run that was cut short, what has not been tried in full does not hold."""
    catalogue = {"t::passed": ("KEY-01",), "t::slow": ("KEY-01",)}
    evidence = Evidence(catalogue=dict(catalogue), running={"t::slow"}, partial="interrupted")
    report = judge(PASSED, evidence=evidence)

    assert (status_of(report, "KEY-01"), report.verdict.startswith("PARTIAL (interrupted): ")) == (
        ("not-run", "interrupted: 1 of its 2 tests had not finished; t::slow was running"),
        True,
    )


def test_verdict_names_what_is_broken(judge: Judge) -> None:
    """The verdict of one line says how much is broken, how badly, and what."""
    assert judge(PASSED, BROKEN, ABSENT).verdict == (
        "some/plan.py BREAKS 1 of the 2 requirements that ran, 1 of them unsafe (KEY-02); 2 not run"
    )


def test_verdict_of_a_clean_run(judge: Judge) -> None:
    """A clean verdict counts what ran and what did not; a run without any test says so."""
    assert (judge(PASSED).verdict, judge().verdict) == (
        "some/plan.py breaks none of the 1 requirement that ran; 3 not run",
        "some/plan.py: nothing was judged; 4 not run",
    )


def test_record_survives_the_journey() -> None:
    """A record read from its own JSON is the record that was written."""
    assert [Record.from_json(r.to_json()) for r in (PASSED, BROKEN, ABSENT)] == [
        PASSED,
        BROKEN,
        ABSENT,
    ]


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("two\nlines ", "two\nlines"),
        ("bell \a and \x1b[31mred", "bell \\x07 and \\x1b[31mred"),
        ("lone \udcff", "lone \\udcff"),
        ("tab\there", "tab    here"),
        ("nul \0", "nul \\x00"),
        ("déjà vu", "déjà vu"),
    ],
)
def test_hostile_text_is_made_safe(raw: str, safe: str) -> None:
    """What would confuse a terminal, UTF-8 or XML comes out as an escape; the rest is kept."""
    assert clean(raw) == safe


def test_long_text_is_cut_visibly() -> None:
    """A story that never ends is cut, in lines and in characters, with a mark that shows it."""
    assert (clean("a\n" * 99).splitlines()[-1], clean("a" * 9999)[-2:]) == ("…", "a…")
