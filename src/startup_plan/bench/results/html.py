# SPDX-License-Identifier: Apache-2.0
"""A benchmark as one HTML page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from startup_plan.bench.server.stages import ELSEWHERE, STAGES
from startup_plan.support.page import render_page

from .table import gains, summary, used_stages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .record import Results

# Told apart by those who do not see all colours, and by the words beside them.
_COLOURS: Final = (
    *("#4477aa", "#66ccee", "#ee6677", "#ccbb44", "#aa3377", "#228833", "#88ccaa", "#ddaa33"),
    "var(--rest)",
)


def render_html(results: Results) -> str:
    """Write the results as a page."""
    answered = [run for run in results.runs if run.answered]
    return render_page(
        "bench/results/html.jinja",
        title="startup-plan bench",
        verdict=summary(results),
        good=results.status == "finished" and results.reason is None and not results.failed(),
        results=results,
        answered=answered,
        longest=max((run.answered or 0.0 for run in answered), default=0.0),
        stages=used_stages(results.figures),
        colours=dict(zip((*STAGES, ELSEWHERE), _COLOURS, strict=True)),
        gains=gains(results.figures),
        settings=list(_settings(results)),
    )


def _settings(results: Results) -> Iterator[tuple[str, str]]:
    facts = {"started": results.started, "ended": results.ended, "version": results.version}
    for name, value in {**facts, **results.settings, **results.machine}.items():
        yield name, value if isinstance(value, str) else json.dumps(value)
    for request in results.requests:
        yield f"request {request['name']}", f"{request['endpoint']}, sha256 {request['sha256']}"
