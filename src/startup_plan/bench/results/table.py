# SPDX-License-Identifier: Apache-2.0
"""A benchmark as text for a terminal: times, gains, and what did not hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from startup_plan.bench.server.stages import ELSEWHERE, STAGES

if TYPE_CHECKING:
    from rich.console import Console

    from .record import Check, Results


def show(results: Results, console: Console) -> None:
    """Print times, gains and checks."""
    if results.runs:
        console.print(_times(results))
    for line in gains(results.figures):
        console.print(line, highlight=False, markup=False)
    for check in results.failed():
        console.print(f"[bold red]failed[/] {escape(named(check))}: {escape(check.evidence)}")
    console.print(summary(results), highlight=False, markup=False)


def summary(results: Results) -> str:
    """Say in one line how it went."""
    count = Counter(check.verdict for check in results.checks)
    words = (
        f"{count['passed']} checks passed, {count['failed']} failed, "
        f"{count['not-applicable']} not applicable; {len(results.runs)} servers"
    )
    return f"{words}; {results.reason}" if results.reason else words


def gains(figures: dict[str, Any]) -> list[str]:
    """Say what each kind of reuse gains, or why that cannot be said."""
    return [
        f"{name}: no figure, {gain['reason']}"
        if gain["seconds"] is None
        else f"{name}: {spread_words(gain['seconds'])} saved by {gain['of']}{_caution(gain)}"
        for name, gain in figures.get("gains", {}).items()
    ]


def named(check: Check) -> str:
    """Give a check with what it is about."""
    about = "" if check.phase is None else f" of {check.phase}, round {check.repeat}"
    return f"{check.name}{about}"


def spread_words(spread: dict[str, Any] | None) -> str:
    """Give a median, and the spread where there is more than one value."""
    if spread is None:
        return "-"
    median = f"{spread['median']:.2f} s"
    if len(spread["values"]) == 1:
        return median
    return f"{median} ({spread['least']:.2f} to {spread['most']:.2f})"


def _caution(gain: dict[str, Any]) -> str:
    rounds = len(gain["seconds"]["values"])
    return "; one round cannot tell a gain from noise, see --repeats" if rounds == 1 else ""


def used_stages(figures: dict[str, Any]) -> list[str]:
    """Give the stages that any phase has, in their order."""
    used = {name for phase in figures.get("phases", {}).values() for name in phase["stages"]}
    return [name for name in (*STAGES, ELSEWHERE) if name in used]


def _times(results: Results) -> Table:
    stages = used_stages(results.figures)
    table = Table("phase", "servers", "healthy", "first answer done", *stages)
    for name, phase in results.figures.get("phases", {}).items():
        table.add_row(
            name,
            f"{phase['answered_runs']} of {phase['runs']}",
            spread_words(phase["healthy"]),
            spread_words(phase["answered"]),
            *(spread_words(phase["stages"].get(stage)) for stage in stages),
        )
    return table
