# SPDX-License-Identifier: Apache-2.0
"""A report as lines of text: the matrix that a person reads.

The words carry the meaning and colour only repeats it, so that the matrix reads the same in a log
file. Whoever prints a line decides how its style looks.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from startup_plan.harness.contract.register import LEVELS

from .comparison import FAILS, KIND_WORDS
from .judgement import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.contract.register import Level

    from .base import Base
    from .comparison import Kind
    from .judgement import Report, Result, Status

Style = Literal["plain", "heading", "good", "bad", "dim"]

_WORDS: Final[dict[Status, str]] = {
    "holds": "holds",
    "violated": "VIOLATED",
    "known-gap": "known gap",
    "not-run": "not run",
}
_STYLES: Final[dict[Status, Style]] = {
    "holds": "good",
    "violated": "bad",
    "known-gap": "plain",
    "not-run": "dim",
}
_INDENT: Final = 23

_FOLDED_KINDS: Final[dict[Kind, Style]] = {
    "fixed": "good",
    "not-comparable": "dim",
    "new": "plain",
    "other-evidence": "plain",
    "inherited": "plain",
}
"""In the order in which they are listed; of those that fail only accepted ones are left."""


class Line(NamedTuple):
    """One line of text and how it is meant."""

    text: str
    style: Style = "plain"


def header(report: Report) -> Iterator[Line]:
    """Say what was judged, and by what."""
    seed = "" if report.suite.seed is None else f", seed {report.suite.seed}"
    yield Line(f"subject  {report.subject.name}, version {report.subject.version}", "heading")
    yield Line(f"file     {report.subject.file}")
    yield Line(f"sha256   {report.subject.sha256}")
    yield Line(f"suite    {report.suite.version}, profile {report.suite.profile}{seed}")
    if (backend := report.environment.get("backend")) is not None:
        yield Line(f"backend  {backend}, simulated")
    if report.base is not None:
        yield Line(f"against  {described(report.base)}")


def described(base: Base) -> str:
    """Say what a base is, and where its judgement comes from."""
    version = f", version {base.subject['version']}" if base.subject["version"] else ""
    origin = "judged in this run with the same options" if base.judged else "out of a report"
    return f"{base.name}{version}, {origin}"


def comparison(report: Report, width: int) -> Iterator[Line]:
    """Lead with what is new against the base; give only ids of what both have in common."""
    if report.base is None:
        return
    yield Line("")
    yield Line(f"against {report.base.name}", "heading")
    for result in report.results:
        if result.fails:
            yield from _row(result, width)
    for kind, style in _FOLDED_KINDS.items():
        # Where nothing was judged here the matrix below says why.
        results = [r for r in report.compared(kind) if r.status != "not-run" and not r.fails]
        results.sort(key=_against_words)
        for words, group in groupby(results, key=_against_words):
            text = _ids(tuple(group)) + (f": {words}" if words else "")
            yield from _wrapped(f"  {KIND_WORDS[kind]:<{_INDENT - 2}}", text, width, style)
    for words in report.base.differences(report.suite, report.environment):
        yield from _wrapped(f"  {'not the same':<{_INDENT - 2}}", words, width, "dim")


def matrix(report: Report, width: int, *, in_full: bool = True) -> Iterator[Line]:
    """Give every requirement, worst level first, with the story of what is broken.

    Args:
        report: to be shown.
        width: of the window, in characters.
        in_full: whether known gaps, and what `comparison` shows, have more than their ids.
    """
    for level in LEVELS:
        yield Line("")
        yield _level_heading(report, level)
        left_out = tuple(r for r in report.having("not-run", level) if _words(r) == LEFT_OUT)
        gaps = () if in_full else report.having("known-gap", level)
        compared = report.base is not None and not in_full
        told = report.having("violated", level) if compared else ()
        for result in report.results:
            if result.requirement.level == level and result not in (*left_out, *gaps, *told):
                yield from _row(result, width)
        if gaps:
            yield from _wrapped(f"  {'known gap':<11}", _ids(gaps), width, "plain")
        if told:
            text = f"{_ids(told)}: compared above"
            yield from _wrapped(f"  {'violated':<11}", text, width, "plain")
        if left_out:
            text = f"{_ids(left_out)}: {LEFT_OUT}"
            yield from _wrapped(f"  {'not run':<11}", text, width, "dim")


def short_matrix(report: Report, width: int) -> Iterator[Line]:
    """Give the same judgement with nothing but ids for what holds, grouped where words repeat."""
    for level in LEVELS:
        yield _level_heading(report, level)
        for result in (*report.having("violated", level), *report.having("known-gap", level)):
            yield from _row(result, width)
        if holding := _ids(report.having("holds", level)):
            yield from _wrapped(f"  {'holds':<11}", holding, width, "good")
        resting = sorted(report.having("not-run", level), key=_words)
        for words, results in groupby(resting, key=_words):
            text = f"{_ids(tuple(results))}: {words}"
            yield from _wrapped(f"  {'not run':<11}", text, width, "dim")


def closing(report: Report) -> Iterator[Line]:
    """Say what was tried, what is required and absent, and the verdict."""
    number = report.outcomes
    tried = [f"{number['passed']} passed", f"{number['failed']} failed"]
    if number["skipped"]:
        tried.append(f"{number['skipped']} skipped")
    counts = [counted(name, count) for name, count in report.counters.items()]
    yield Line(f"tests    {', '.join(tried)} in {report.seconds:.1f} s; {', '.join(counts)}")
    if report.remark:
        yield Line(f"note     {report.remark}")
    for name, reason in report.lacking.items():
        yield Line(f"required capability {name} is absent: {reason}", "bad")
    if report.besides:
        ids = " ".join(report.besides)
        yield Line(f"seen on the way and not asked for: {ids} violated")
    clean = report.exit_status == 0 and report.partial is None
    yield Line(report.verdict, "good" if clean else "bad")


def counted(name: str, count: int) -> str:
    """Say how many there are of something that a test counted."""
    words = name.replace("_", " ")
    return f"{count:,} {words.removesuffix('s') if count == 1 else words}"


def _level_heading(report: Report, level: Level) -> Line:
    words = {
        "holds": "hold",
        "violated": "violated",
        "known-gap": "known gaps",
        "not-run": "not run",
    }
    number = report.count(level)
    counts = [f"{count} {words[status]}" for status, count in number.items() if count]
    return Line(f"{level}: {', '.join(counts) or 'no requirement'}", "heading")


def _row(result: Result, width: int) -> Iterator[Line]:
    style = _STYLES[result.status]
    label = f"  {_WORDS[result.status]:<11}{result.requirement.id:<10}"
    sentence = result.requirement.sentence
    if result.status in ("holds", "not-run"):
        room = max(width - _INDENT, 20)
        short = textwrap.shorten(sentence, room, placeholder=" …", break_on_hyphens=False)
        yield Line(label + short, style)
    else:
        yield from _wrapped(label, sentence, width, style)
    if result.against is not None and result.against.kind in FAILS:
        against = result.against
        text = KIND_WORDS[against.kind] + (f": {against.words}" if against.words else "")
        yield from _wrapped(" " * _INDENT, text, width, style)
    for line in (result.counterexample or "").splitlines():
        yield from _wrapped(" " * _INDENT, line, width, "dim" if style == "dim" else "plain")


def _wrapped(label: str, text: str, width: int, style: Style) -> Iterator[Line]:
    room = max(width - len(label), 20)
    pieces = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    for number, piece in enumerate(pieces):
        yield Line((" " * len(label) if number else label) + piece, style)


def _ids(results: tuple[Result, ...]) -> str:
    return " ".join(result.requirement.id for result in results)


def _against_words(result: Result) -> str:
    return result.against.words if result.against is not None else ""


def _words(result: Result) -> str:
    return result.counterexample or ""
