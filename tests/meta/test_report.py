# SPDX-License-Identifier: Apache-2.0
"""From records to a judgement, and the judgement in every form."""

from __future__ import annotations

import json
import stat
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from startup_plan.harness.report import LEFT_OUT, Evidence
from startup_plan.harness.report_files import ReportPathError, check_writable, write_report
from startup_plan.harness.report_html import render_html
from startup_plan.harness.report_json import as_dict, render_json
from startup_plan.harness.report_junit import render_junit
from startup_plan.harness.report_record import Record, clean
from startup_plan.harness.report_terminal import closing, header, matrix, short_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from startup_plan.harness.report import Report
    from startup_plan.harness.report_terminal import Line
    from tests.meta.conftest import Judge

PASSED = Record("t::passed", ("KEY-01",), "passed", seconds=0.25, counters={"boots": 3})
BROKEN = Record(
    "t::broken",
    ("KEY-02",),
    "failed",
    violated=("KEY-02",),
    story="boot at 0.8 saved <15.9> GiB\nboot at 0.35 & applied it",
    told=True,
    counters={"boots": 2, "examples": 7},
)
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


def text_of(lines: Iterable[Line]) -> str:
    """Join lines as a terminal would show them."""
    return "\n".join(line.text for line in lines)


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
    """Of several counterexamples the shortest is shown, and a told one before a made-up one."""
    stories = [("raised X", False), ("a longer story", True), ("a story", True)]
    records = [
        Record(f"t{n}", ("KEY-01",), "failed", violated=("KEY-01",), story=story, told=told)
        for n, (story, told) in enumerate(stories)
    ]

    assert status_of(judge(*records), "KEY-01") == ("violated", "a story")


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
        "some/plan.py breaks none of the 1 requirements that ran; 3 not run",
        "some/plan.py: nothing was judged; 4 not run",
    )


def test_json_has_the_promised_form(judge: Judge) -> None:
    """Every id appears exactly once, with every promised field, and the counts add up."""
    report = json.loads(render_json(judge(PASSED, BROKEN, ABSENT)))
    fields = ["id", "level", "sentence", "status", "tests", "counterexample", "seconds"]

    assert (
        list(report),
        list(report["subject"]),
        list(report["suite"]),
        [r["id"] for r in report["requirements"]],
        [list(r) for r in report["requirements"]],
    ) == (
        ["subject", "suite", "environment", "requirements", "summary"],
        ["name", "file", "sha256", "version"],
        ["version", "profile", "seed"],
        ["LOG-01", "KEY-01", "KEY-02", "SAVE-06"],
        [fields] * 4,
    )


def test_json_summary_counts(judge: Judge) -> None:
    """The summary counts by status and level, adds up what was tried, and is not partial."""
    summary = as_dict(judge(PASSED, BROKEN, ABSENT))["summary"]

    assert (summary["statuses"], summary["levels"]["unsafe"]["violated"]) == (
        {"holds": 1, "violated": 1, "known-gap": 0, "not-run": 2},
        1,
    )
    assert (summary["counters"], summary["tests"], summary["partial"]) == (
        {"boots": 5, "examples": 7, "byte_variants": 0},
        {"passed": 1, "failed": 1, "skipped": 1},
        False,
    )


def test_json_names_probed_capabilities(judge: Judge) -> None:
    """The environment tells which capabilities were tried and what came of it."""
    assert as_dict(judge(ABSENT))["environment"]["capabilities"] == {
        "redis": {"present": False, "reason": "not installed"}
    }


def test_junit_has_one_case_for_each_requirement(judge: Judge) -> None:
    """In JUnit form a violation is a failure with its story, and what did not run is skipped."""
    root = ET.fromstring(render_junit(judge(PASSED, BROKEN, ABSENT)))  # noqa: S314
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    failure, skipped = cases["KEY-02"].find("failure"), cases["LOG-01"].find("skipped")

    assert (list(cases), root.attrib["failures"], root.attrib["skipped"]) == (
        ["LOG-01", "KEY-01", "KEY-02", "SAVE-06"],
        "1",
        "2",
    )
    assert failure is not None
    assert skipped is not None
    assert (failure.text, skipped.attrib["message"], len(cases["KEY-01"])) == (
        BROKEN.story,
        "not-run: capability redis: not installed",
        1,
    )


def test_junit_proves_what_was_judged(judge: Judge) -> None:
    """The JUnit suite carries the subject and its digest as properties."""
    root = ET.fromstring(render_junit(judge(PASSED)))  # noqa: S314
    properties = {p.attrib["name"]: p.attrib["value"] for p in root.iter("property")}

    assert (properties["subject"], properties["sha256"]) == ("some/plan.py", "ab" * 32)


class _Page(HTMLParser):
    """Notes every tag, every attribute that fetches something, and whether tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "!doctype"):
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe"):
            self.fetched.append(tag)
        self.fetched += [f"{n}={v}" for n, v in attrs if n in ("src", "style", "onclick")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_needs_nothing_else_and_is_whole(judge: Judge) -> None:
    """The page closes every tag, fetches nothing, and shows hostile text as text."""
    page = _Page()
    page.feed(render_html(judge(PASSED, BROKEN, ABSENT)))

    assert (page.open, page.fetched, BROKEN.story in page.text) == ([], [], True)


def test_html_follows_the_window_and_sets_code(judge: Judge) -> None:
    """The page has colours for dark and light, and what is code in a sentence looks like it."""
    page = render_html(judge(PASSED))

    assert ("prefers-color-scheme: dark" in page, "<code>compute_hash()</code>" in page) == (
        True,
        True,
    )


def test_matrix_is_ordered_by_level(judge: Judge) -> None:
    """The matrix shows the worst level first, whatever the order of the register."""
    text = text_of(matrix(judge(PASSED, BROKEN, ABSENT), 100))

    assert (
        text.index("unsafe: 1 hold, 1 violated")
        < text.index("costly: 1 not run")
        < text.index("hygiene: 1 not run")
    )


def test_matrix_shows_stories_and_reasons(judge: Judge) -> None:
    """The counterexample stands under its sentence, and the reason under what did not run."""
    lines = text_of(matrix(judge(BROKEN, ABSENT), 100)).splitlines()
    broken = next(n for n, line in enumerate(lines) if "VIOLATED" in line)
    absent = next(n for n, line in enumerate(lines) if "LOG-01" in line)

    assert (lines[broken + 1].strip(), lines[broken + 2].strip(), lines[absent + 1].strip()) == (
        "boot at 0.8 saved <15.9> GiB",
        "boot at 0.35 & applied it",
        "capability redis: not installed",
    )


@pytest.mark.parametrize("width", [20, 60, 200])
def test_matrix_fits_the_window(judge: Judge, width: int) -> None:
    """No line is wider than the window, unless the window is narrower than the labels."""
    report = judge(PASSED, BROKEN, ABSENT)
    widest = max(len(line.text) for line in (*matrix(report, width), *short_matrix(report, width)))

    assert widest <= max(width, 43)


def test_short_matrix_groups_what_repeats(judge: Judge) -> None:
    """In the short form what holds is a list of ids, and equal reasons are said once."""
    other = Record("t::other", ("KEY-02",), "passed")

    assert text_of(short_matrix(judge(PASSED, other), 100)).splitlines() == [
        "unsafe: 2 hold",
        "  holds      KEY-01 KEY-02",
        "costly: 1 not run",
        "  not run    SAVE-06: the model of crashes",
        "hygiene: 1 not run",
        "  not run    LOG-01: no test of this run judges it",
    ]


def test_header_and_closing_say_what_was_tried(judge: Judge) -> None:
    """Above the matrix stands the proof of what was loaded, and below it the figures."""
    report = judge(PASSED, BROKEN)

    assert ("ab" * 32 in text_of(header(report)), "5 boots" in text_of(closing(report))) == (
        True,
        True,
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


def test_report_replaces_in_one_step(tmp_path: Path) -> None:
    """A report is published whole, with an ordinary mode, and leaves nothing beside it."""
    path = tmp_path / "report.json"
    path.write_text("old")
    check_writable(path)
    between = path.read_text()
    write_report(path, "new")

    assert (between, path.read_text(), list(tmp_path.iterdir())) == ("old", "new", [path])
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


def test_report_follows_a_link(tmp_path: Path) -> None:
    """A link to a report stays a link, and the file behind it is replaced."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_report(link, "new")

    assert (link.is_symlink(), target.read_text()) == (True, "new")


def test_device_is_written_to_and_not_replaced() -> None:
    """A report may go to a device, which must not become a file."""
    from pathlib import Path  # noqa: PLC0415

    null = Path("/dev/null")
    check_writable(null)
    write_report(null, "text")

    assert null.is_char_device()


@pytest.mark.parametrize("name", ["missing/report", ".", "file/report", "x" * 300, "nul\0"])
def test_hopeless_path_is_refused(tmp_path: Path, name: str) -> None:
    """No folder, a folder, a file for a folder, a name too long: a sentence with the remedy."""
    (tmp_path / "file").touch()

    with pytest.raises(ReportPathError, match=r"cannot write the report .*: name a file in a"):
        check_writable(tmp_path / name)
    with pytest.raises(ReportPathError, match=r"cannot write the report .*: name a file in a"):
        write_report(tmp_path / name, "text")
