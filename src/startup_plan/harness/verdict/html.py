# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page that needs nothing else: no script, no font, no picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.register import LEVELS

from .terminal import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from startup_plan.harness.contract.register import Level

    from .judgement import Report, Result, Status

_WORDS: Final[dict[Status, str]] = {
    "holds": "holds",
    "violated": "violated",
    "known-gap": "known gap",
    "not-run": "not run",
}

_STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --box: #f6f8fa;
  --good: #116329; --bad: #b3141d; --gap: #7d4e00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0d1117; --ink: #e6edf3; --soft: #9da7b1; --line: #30363d; --box: #161b22;
    --good: #56d364; --bad: #ff8078; --gap: #e3b341;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.verdict { border-left: .3rem solid var(--good); padding: .5rem 1rem; background: var(--box); }
.verdict.bad { border-color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; }
tr { border-top: 1px solid var(--line); }
thead tr { border-top: 0; }
thead th { color: var(--soft); font-weight: normal; }
tbody th, .status { white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.holds { color: var(--good); }
.violated { color: var(--bad); font-weight: bold; }
.known-gap { color: var(--gap); }
.not-run { color: var(--soft); }
pre {
  margin: .4rem 0 0; padding: .5rem .75rem; background: var(--box); white-space: pre-wrap;
  overflow-wrap: anywhere; font: .9rem/1.4 ui-monospace, monospace;
}
.reason { margin: .3rem 0 0; color: var(--soft); }
code { font-family: ui-monospace, monospace; }
"""


def render_html(report: Report) -> str:
    """Write the report as a page, readable in a light and in a dark window."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"startup-plan gate: {report.subject.name}"
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{escape(title)}</h1>"
    tone = "" if report.exit_status == 0 and report.partial is None else " bad"
    yield f'<p class="verdict{tone}">{escape(report.verdict)}</p>'
    yield from _facts(_run_facts(report))
    yield from _totals(report)
    for level in LEVELS:
        yield from _level(report, level)
    yield "<h2>Environment</h2>"
    yield from _facts(_environment_facts(report))
    yield "</main></body></html>"


def _run_facts(report: Report) -> Iterator[tuple[str, str]]:
    seed = "none" if report.suite.seed is None else str(report.suite.seed)
    yield "subject", f"{report.subject.name}, version {report.subject.version}"
    yield "file", report.subject.file
    yield "sha256", report.subject.sha256
    yield "suite", f"{report.suite.version}, profile {report.suite.profile}, seed {seed}"
    yield "tests", ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    yield "tried", ", ".join(counted(name, count) for name, count in report.counters.items())
    yield "seconds", f"{report.seconds:.1f}"
    for name, reason in report.lacking.items():
        yield "required and absent", f"{name}: {reason}"


def _environment_facts(report: Report) -> Iterator[tuple[str, str]]:
    for name, value in report.environment.items():
        if not isinstance(value, dict):
            yield name, "not installed" if value is None else str(value)
            continue
        for capability, answer in value.items():
            found = "present" if answer["present"] else "absent"
            yield f"capability {capability}", f"{found}: {answer['reason']}"


def _facts(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield "<dl>"
    for name, value in facts:
        yield f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
    yield "</dl>"


def _totals(report: Report) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr><th scope="col">level</th>'
    for word in _WORDS.values():
        yield f'<th scope="col" class="number">{word}</th>'
    yield "</tr></thead><tbody>"
    for level in LEVELS:
        number = report.count(level)
        cells = "".join(f'<td class="number">{number[status]}</td>' for status in _WORDS)
        yield f'<tr><th scope="row"><a href="#{level}">{level}</a></th>{cells}</tr>'
    yield "</tbody></table></div>"


def _level(report: Report, level: Level) -> Iterator[str]:
    yield f'<section><h2 id="{level}">{level}</h2><div class="wide"><table><thead><tr>'
    for word in ("requirement", "status", "sentence"):
        yield f'<th scope="col">{word}</th>'
    yield '<th scope="col" class="number">tests</th><th scope="col" class="number">seconds</th>'
    yield "</tr></thead><tbody>"
    for result in report.results:
        if result.requirement.level == level:
            yield _row(result)
    yield "</tbody></table></div></section>"


def _row(result: Result) -> str:
    requirement, status = result.requirement, result.status
    return (
        f'<tr id="{requirement.id}"><th scope="row">{requirement.id}</th>'
        f'<td class="status {status}">{_WORDS[status]}</td>'
        f"<td>{_with_code(requirement.sentence)}{_words(result)}</td>"
        f'<td class="number">{len(result.tests)}</td>'
        f'<td class="number">{result.seconds:.2f}</td></tr>'
    )


def _words(result: Result) -> str:
    if result.counterexample is None:
        return ""
    words = escape(result.counterexample)
    if result.status == "not-run":
        return f'<p class="reason">{words}</p>'
    return f"<pre>{words}</pre>"


def _with_code(sentence: str) -> str:
    """Set what a sentence puts between backticks as code."""
    pieces = escape(sentence).split("`")
    if len(pieces) % 2 == 0:
        return escape(sentence)
    return "".join(
        f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces)
    )
