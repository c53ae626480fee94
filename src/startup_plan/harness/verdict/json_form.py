# SPDX-License-Identifier: Apache-2.0
"""A report as JSON: the form that other programs read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.register import LEVELS

from .comparison import KINDS

if TYPE_CHECKING:
    from .base import Base
    from .judgement import Report

SCHEMA: Final = "startup-plan/gate/2"
"""Which form this is: that of `schemas/gate-2.json`."""


def as_dict(report: Report) -> dict[str, Any]:
    """Give the report as plain values, every requirement of the register exactly once."""
    return {
        "schema": SCHEMA,
        "subject": asdict(report.subject),
        "suite": asdict(report.suite),
        "environment": dict(report.environment),
        "against": None if report.base is None else _base(report, report.base),
        "requirements": [
            {
                "id": result.requirement.id,
                "level": result.requirement.level,
                "sentence": result.requirement.sentence,
                "edition": result.requirement.edition,
                "status": result.status,
                "against": None if result.against is None else result.against.kind,
                "against_words": (result.against.words or None) if result.against else None,
                "tests": list(result.tests),
                "untried": list(result.untried),
                "evidence": [
                    {"test": test, "kinds": sorted(kinds)}
                    for test, kinds in sorted(result.evidence.items())
                ],
                "counterexample": result.counterexample,
                "seconds": round(result.seconds, 3),
            }
            for result in report.results
        ],
        "summary": {
            "verdict": report.verdict,
            "partial": report.partial is not None,
            "partial_reason": report.partial,
            "statuses": report.count(),
            "against": _counts(report),
            "seen_and_not_asked_for": dict(report.besides),
            "levels": {level: report.count(level) for level in LEVELS},
            "cannot_be_judged": list(report.undecided),
            "known_gaps_that_hold": list(report.stale),
            "required_and_absent": dict(report.lacking),
            "tests": dict(report.outcomes),
            "counters": dict(report.counters),
            "seconds": round(report.seconds, 3),
        },
    }


def _base(report: Report, base: Base) -> dict[str, Any]:
    return {
        "name": base.name,
        "judged_in_this_run": base.judged,
        "subject": dict(base.subject),
        "suite": dict(base.suite),
        "differences": list(base.differences(report.suite, report.environment)),
    }


def _counts(report: Report) -> dict[str, int] | None:
    return None if report.base is None else {kind: len(report.compared(kind)) for kind in KINDS}


def render_json(report: Report) -> str:
    """Write the report as indented JSON of plain ASCII."""
    return json.dumps(as_dict(report), indent=2) + "\n"
