# SPDX-License-Identifier: Apache-2.0
"""Medians with their spread, and gains that compare like with like. All times in seconds."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .record import Check, Run


def figures_of(runs: Sequence[Run], checks: Iterable[Check]) -> dict[str, Any]:
    """Give the figures of a benchmark.

    Returns:
        `phases`: for each phase the spread of `healthy`, `answered` and each stage;
        `gains`: for each comparison its spread over the rounds, or the reason why there is none.
    """
    failed = [check for check in checks if check.verdict == "failed"]
    names = dict.fromkeys(run.phase for run in runs)
    return {
        "phases": {name: _phase([run for run in runs if run.phase == name]) for name in names},
        "gains": {
            "compile cache": _gain(runs, "uncached", "cache-hit", _spoilt(failed, _CACHE)),
            "startup plan": _gain(runs, "cache-hit", "plan-hit", _spoilt(failed, _PLAN)),
        },
    }


# What must hold for a gain to be one: both sides reused what they claim to, and nothing else.
_CACHE = ("artifacts-loaded", "nothing-reused")
_PLAN = ("plan-applied", "equal-compile", "artifacts-loaded")


def spread(values: Sequence[float]) -> dict[str, Any] | None:
    """Give median, least, most and all values; None if there are none."""
    if not values:
        return None
    rounded = [round(value, 4) for value in values]
    return {
        "median": round(statistics.median(values), 4),
        "least": min(rounded),
        "most": max(rounded),
        "values": rounded,
    }


def _phase(runs: Sequence[Run]) -> dict[str, Any]:
    whole = [run for run in runs if run.answered is not None]
    names = dict.fromkeys(stage.name for run in whole for stage in run.stages)
    return {
        "runs": len(runs),
        "answered_runs": len(whole),
        "healthy": spread([run.healthy for run in whole if run.healthy is not None]),
        "answered": spread([run.answered for run in whole if run.answered is not None]),
        "stages": {
            name: spread([s.seconds for run in whole for s in run.stages if s.name == name])
            for name in names
        },
    }


def _spoilt(failed: Iterable[Check], names: tuple[str, ...]) -> str | None:
    for check in failed:
        if check.name in names and check.phase in {"uncached", "cache-hit", "plan-hit"}:
            return f"{check.name} failed in {check.phase} of round {check.repeat}"
    return None


def _gain(runs: Sequence[Run], slow: str, fast: str, spoilt: str | None) -> dict[str, Any]:
    times = {(r.phase, r.repeat): r.answered for r in runs if r.answered is not None}
    pairs = [
        (before, times[fast, repeat])
        for (phase, repeat), before in times.items()
        if phase == slow and (fast, repeat) in times
    ]
    document: dict[str, Any] = {"of": f"{fast} against {slow}, until the first answer"}
    if not pairs:
        return {**document, "seconds": None, "reason": f"{slow} and {fast} were not both answered"}
    if spoilt is not None:
        return {**document, "seconds": None, "reason": spoilt}
    return {**document, "seconds": spread([b - a for b, a in pairs]), "reason": None}
