# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page, made from its JSON form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from startup_plan.support.page import render_page

from .comparison import FAILS, KIND_WORDS
from .json_form import as_dict
from .terminal import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .judgement import Report, Status

_STATUSES: Final[Mapping[Status, str]] = {
    "holds": "holds",
    "violated": "violated",
    "known-gap": "known gap",
    "not-run": "not run",
}


def render_html(report: Report) -> str:
    """Write the report as a page."""
    return page_of(as_dict(report))


def page_of(report: Mapping[str, Any]) -> str:
    """Write a report that is given in its JSON form as a page."""
    summary = report["summary"]
    troubles = ("partial", "known_gaps_that_hold", "required_and_absent")
    return render_page(
        "harness/verdict/html.jinja",
        title=f"startup-plan gate: {report['subject']['name']}",
        verdict=summary["verdict"],
        good=not _failures(report) and not any(summary[name] for name in troubles),
        report=report,
        statuses=_STATUSES,
        kinds=KIND_WORDS,
        run=list(_run(report)),
        environment=list(_environment(report["environment"])),
    )


def _failures(report: Mapping[str, Any]) -> int:
    return sum(
        row["status"] == "violated" and row["against"] in {None, *FAILS}
        for row in report["requirements"]
    )


def _run(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    subject, suite, summary = report["subject"], report["suite"], report["summary"]
    seed = "none" if suite["seed"] is None else suite["seed"]
    yield "subject", f"{subject['name']}, version {subject['version']}"
    yield "file", subject["file"]
    yield "sha256", subject["sha256"]
    yield "suite", f"{suite['version']}, profile {suite['profile']}, seed {seed}"
    if (base := report["against"]) is not None:
        origin = "judged in this run" if base["judged_in_this_run"] else "out of a report"
        yield "against", f"{base['name']}, sha256 {base['subject']['sha256']}, {origin}"
        yield "not the same", "; ".join(base["differences"]) or "nothing"
    if besides := summary["seen_and_not_asked_for"]:
        yield "violated and not asked for", ", ".join(besides)
    yield "tests", ", ".join(f"{count} {outcome}" for outcome, count in summary["tests"].items())
    yield "tried", ", ".join(counted(name, count) for name, count in summary["counters"].items())
    yield "seconds", f"{summary['seconds']:.1f}"
    for name, reason in summary["required_and_absent"].items():
        yield "required and absent", f"{name}: {reason}"


def _environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if not isinstance(value, dict):
            yield name, "not installed" if value is None else str(value)
            continue
        for capability, answer in value.items():
            found = "present" if answer["present"] else "absent"
            yield f"capability {capability}", f"{found}: {answer['reason']}"
