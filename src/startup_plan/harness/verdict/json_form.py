# SPDX-License-Identifier: Apache-2.0
"""A report as JSON: the form that other programs read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.register import LEVELS

if TYPE_CHECKING:
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
        "requirements": [
            {
                "id": result.requirement.id,
                "level": result.requirement.level,
                "sentence": result.requirement.sentence,
                "edition": result.requirement.edition,
                "status": result.status,
                "against": None,
                "tests": list(result.tests),
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
            "levels": {level: report.count(level) for level in LEVELS},
            "cannot_be_judged": list(report.undecided),
            "known_gaps_that_hold": list(report.stale),
            "required_and_absent": dict(report.lacking),
            "tests": dict(report.outcomes),
            "counters": dict(report.counters),
            "seconds": round(report.seconds, 3),
        },
    }


def render_json(report: Report) -> str:
    """Write the report as indented JSON of plain ASCII."""
    return json.dumps(as_dict(report), indent=2) + "\n"
