# SPDX-License-Identifier: Apache-2.0
"""Bytes are judged, not the name under which they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.run import GateRequest, run_gate
from startup_plan.harness.gate.suite import find_suite
from startup_plan.harness.verdict.judgement import Terms

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_IDS = ("KEY-02", "LOAD-01", "LOAD-02", "LOAD-03", "SAVE-04", "SAVE-10")


def test_the_same_bytes_get_the_same_counts(seeded: Callable[[str], str], tmp_path: Path) -> None:
    """One file in two folders, under two names, by one worker and by two: rows and counts agree."""
    source = seeded("locked_instead_of_replaced")
    register, seen = load_register(), []
    for number, name in enumerate(("a/plan.py", "a longer/way/to/startup_plan_of_a_fork.py"), 1):
        place = tmp_path / name
        place.parent.mkdir(parents=True)
        with open(source, "rb") as stream:
            place.write_bytes(stream.read())
        terms = Terms(register, only=_IDS)
        request = GateRequest(str(place), terms, find_suite(), profile="quick", workers=number)
        report = run_gate(request).report
        rows = {r.requirement.id: (r.status, len(r.tests)) for r in report.results}
        seen.append((rows, dict(report.outcomes), dict(report.counters)))

    assert seen[0] == seen[1]
