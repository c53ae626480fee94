# SPDX-License-Identifier: Apache-2.0
"""A benchmark as one HTML page that needs nothing else: no script, no font, no picture."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

from startup_plan.bench.server.stages import ELSEWHERE, STAGES

from .table import gains, spread_words, summary, used_stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .record import Results, Run

# Told apart by those who do not see all colours, and by the words beside them.
_COLOURS: Final = (
    "#4477aa",
    "#66ccee",
    "#ee6677",
    "#ccbb44",
    "#aa3377",
    "#228833",
    "#88ccaa",
    "#ddaa33",
)

_STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --box: #f6f8fa;
  --good: #116329; --bad: #b3141d; --rest: #b7bec6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0d1117; --ink: #e6edf3; --soft: #9da7b1; --line: #30363d; --box: #161b22;
    --good: #56d364; --bad: #ff8078; --rest: #4a525b;
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
.bar { display: grid; grid-template-columns: 14rem 1fr; gap: 1rem; margin: .3rem 0; }
.bar > span { white-space: nowrap; }
.track { display: flex; height: 1.5rem; }
.track > i { display: block; height: 100%; border-right: 1px solid var(--paper); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .75rem 0; padding: 0; }
.legend li { list-style: none; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; }
tr { border-top: 1px solid var(--line); }
thead tr { border-top: 0; }
thead th { color: var(--soft); font-weight: normal; }
tbody th { white-space: nowrap; }
.passed { color: var(--good); }
.failed { color: var(--bad); font-weight: bold; }
.not-applicable { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
pre {
  margin: .4rem 0 0; padding: .5rem .75rem; background: var(--box); white-space: pre-wrap;
  overflow-wrap: anywhere; font: .9rem/1.4 ui-monospace, monospace;
}
"""


def render_html(results: Results) -> str:
    """Write the results as a page, readable in a light and in a dark window."""
    text = "\n".join(_page(results)) + "\n"
    # Answers and logs may hold half a character.
    return text.encode(errors="backslashreplace").decode()


def _page(results: Results) -> Iterator[str]:
    title = "startup-plan bench"
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{title}</h1>"
    good = results.status == "finished" and results.reason is None and not results.failed()
    yield f'<p class="verdict{"" if good else " bad"}">{escape(summary(results))}</p>'
    yield f"<pre>{escape(' '.join(results.command))}</pre>"
    yield from _bars(results)
    yield from _times(results)
    yield "<h2>Gains</h2><ul>"
    yield from (f"<li>{escape(line)}</li>" for line in gains(results.figures))
    yield "</ul>"
    yield from _checks(results)
    yield from _ends(results.runs)
    yield from _listed("Held equal", results.held_equal)
    yield from _listed("Not held equal", results.not_held_equal)
    yield from _facts(results)
    yield "</main></body></html>"


def _bars(results: Results) -> Iterator[str]:
    whole = [run for run in results.runs if run.answered]
    longest = max((run.answered or 0.0 for run in whole), default=0.0)
    yield "<h2>From launch to the first answer</h2>"
    if not whole:
        yield "<p>No server answered.</p>"
        return
    yield '<ul class="legend">'
    for name in used_stages(results.figures):
        yield f"<li><i {_paint(name)}></i>{name}</li>"
    yield "</ul>"
    for run in whole:
        yield f'<div class="bar"><span>{escape(run.phase)}, round {run.repeat}</span>'
        yield f'<div class="track" role="img" aria-label="{escape(_told(run), quote=True)}">'
        for stage in run.stages:
            width = stage.seconds / longest * 100
            words = f"{stage.name}: {stage.seconds:.3f} s, {stage.source}"
            yield f'<i {_paint(stage.name, width)} title="{escape(words, quote=True)}"></i>'
        yield "</div></div>"


def _paint(name: str, width: float | None = None) -> str:
    styles = [] if width is None else [f"width:{width:.3f}%"]
    colour = "var(--rest)" if name == ELSEWHERE else _COLOURS[STAGES.index(name)]
    return f'style="{";".join([*styles, f"background:{colour}"])}"'


def _told(run: Run) -> str:
    return "; ".join(f"{stage.name} {stage.seconds:.2f} s" for stage in run.stages)


def _times(results: Results) -> Iterator[str]:
    stages = used_stages(results.figures)
    yield '<h2>Median seconds, and their spread</h2><div class="wide"><table><thead><tr>'
    for word in ("phase", "servers answered", "healthy", "first answer done", *stages):
        yield f'<th scope="col">{word}</th>'
    yield "</tr></thead><tbody>"
    for name, phase in results.figures.get("phases", {}).items():
        spreads = [phase["healthy"], phase["answered"], *map(phase["stages"].get, stages)]
        cells = "".join(f"<td>{spread_words(spread)}</td>" for spread in spreads)
        yield (
            f'<tr><th scope="row">{escape(name)}</th>'
            f"<td>{phase['answered_runs']} of {phase['runs']}</td>{cells}</tr>"
        )
    yield "</tbody></table></div>"


def _checks(results: Results) -> Iterator[str]:
    yield '<h2>Checks</h2><div class="wide"><table><thead><tr>'
    for word in ("check", "phase", "round", "verdict", "evidence"):
        yield f'<th scope="col">{word}</th>'
    yield "</tr></thead><tbody>"
    order = ("failed", "not-applicable", "passed")
    for check in sorted(results.checks, key=lambda check: order.index(check.verdict)):
        yield (
            f'<tr><th scope="row">{check.name}</th><td>{escape(check.phase or "all")}</td>'
            f"<td>{check.repeat or 'all'}</td><td class={check.verdict!r}>{check.verdict}</td>"
            f"<td>{escape(check.evidence)}</td></tr>"
        )
    yield "</tbody></table></div>"


def _ends(runs: Iterable[Run]) -> Iterator[str]:
    for run in runs:
        if run.traceback or run.tail:
            yield f"<h2>Why {escape(run.phase)} of round {run.repeat} did not get healthy</h2>"
            yield f"<pre>{escape(chr(10).join(run.traceback or run.tail))}</pre>"


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<h2>{title}</h2><ul>"
    yield from (f"<li>{escape(line)}</li>" for line in lines)
    yield "</ul>"


def _facts(results: Results) -> Iterator[str]:
    yield "<h2>Settings and machine</h2><dl>"
    facts = {"started": results.started, "ended": results.ended, "version": results.version}
    for name, value in {**facts, **results.settings, **results.machine}.items():
        words = value if isinstance(value, str) else json.dumps(value)
        yield f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>"
    for request in results.requests:
        words = f"{request['endpoint']}, sha256 {request['sha256']}"
        yield f"<dt>request {escape(request['name'])}</dt><dd>{escape(words)}</dd>"
    yield "</dl>"
