# SPDX-License-Identifier: Apache-2.0
"""A judgement in every form: terminal, JSON, JUnit, HTML."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from tests.forms import check_form

from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.display import Display
from startup_plan.harness.gate.run import GateRequest
from startup_plan.harness.verdict.html import render_html
from startup_plan.harness.verdict.json_form import as_dict, render_json
from startup_plan.harness.verdict.judgement import Evidence, Terms
from startup_plan.harness.verdict.junit import render_junit
from startup_plan.harness.verdict.record import Record
from startup_plan.harness.verdict.terminal import closing, header, matrix, short_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.meta.conftest import Judge

    from startup_plan.harness.verdict.terminal import Line

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


def text_of(lines: Iterable[Line]) -> str:
    """Join lines as a terminal would show them."""
    return "\n".join(line.text for line in lines)


def test_json_has_the_promised_form(judge: Judge) -> None:
    """Every id appears exactly once, with every promised field, and the counts add up."""
    report = json.loads(render_json(judge(PASSED, BROKEN, ABSENT)))
    check_form(report, "startup-plan/gate/2")
    fields = ["id", "level", "sentence", "edition", "status", "against", "tests"]
    fields[6:] = ["against_words", "tests", "untried", "evidence", "counterexample", "seconds"]

    assert (
        list(report),
        list(report["subject"]),
        list(report["suite"]),
        [r["id"] for r in report["requirements"]],
        [list(r) for r in report["requirements"]],
    ) == (
        ["schema", "subject", "suite", "environment", "against", "requirements", "summary"],
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
    """The page is made for dark and light, phone and paper, and sets what is code as code."""
    page = render_html(judge(PASSED))
    wanted = ("prefers-color-scheme: dark", "(max-width: 40rem)", "@media print")

    assert [words for words in wanted if words not in page] == []
    assert "<code>compute_hash()</code>" in page


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


class _Screen(io.StringIO):
    """A stream that may claim to be a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def _ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no setting of this machine decide what a terminal can show."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def watch(screen: _Screen, folder: Path) -> str:
    """Show a run of two tests on a screen, and give what was written there."""
    request = GateRequest("some/plan.py", Terms(load_register()), folder)
    evidence = Evidence()
    with Display(screen, screen).progress(request) as progress:
        progress.update(evidence)
        evidence.catalogue = {"t::passed": ("KEY-01",), "t::broken": ("KEY-02",)}
        for record in (PASSED, BROKEN):
            progress.update(evidence)
            evidence.add(record)
        progress.update(evidence)
    return screen.getvalue()


def test_progress_is_a_moving_line_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal one line moves: requirements done, tests done, counterexamples found."""
    shown = watch(_Screen(terminal=True), tmp_path)

    assert ("2/2 requirements, 2/2 tests, 1 counterexample" in shown, "\x1b[" in shown) == (
        True,
        True,
    )


def test_progress_is_a_few_lines_in_a_log(tmp_path: Path) -> None:
    """In a log file there are plain lines, one of them for each requirement that breaks."""
    assert watch(_Screen(terminal=False), tmp_path).splitlines() == [
        "judging some/plan.py: 0/2 requirements, 0/2 tests, 0 counterexamples",
        "judging some/plan.py: 1/2 requirements, 1/2 tests, 0 counterexamples",
        "judging some/plan.py: counterexample for KEY-02",
        "judging some/plan.py: 2/2 requirements, 2/2 tests, 1 counterexample",
    ]
