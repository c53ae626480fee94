# SPDX-License-Identifier: Apache-2.0
"""Every figure that was measured on a card: a JSON file, and a short table at the end of the run.

Figures travel from the process that runs a test to the one that hears all, as records do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.units import gib
from startup_plan.harness.verdict.record import clean

from .machine import environment

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from startup_plan.harness.cards.card import Card

PROPERTY: Final = "startup-plan-card"
"""The name under which figures travel in `report.user_properties`."""

_TABLE: Final = "table "


def keep(item: pytest.Item, card: Card, scenario: str) -> None:
    """Hand over what a scenario has measured, whether it came to an end or not.

    Args:
        item: the test that ran it.
        card: where.
        scenario: its name.
    """
    said = {
        "scenario": scenario,
        "card": card.kind,
        "name": card.name,
        "total": card.total,
        "granule": card.granule,
        "figures": card.figures,
    }
    item.user_properties.append((PROPERTY, json.dumps(said)))


@final
class CardReport:
    """Collects, in the process that hears all.

    Args:
        file: where the JSON goes, or None.
    """

    def __init__(self, file: Path | None) -> None:
        """Nothing is measured yet."""
        self._file = file
        self._seconds: dict[str, float] = {}
        self._scenarios: list[dict[str, Any]] = []
        self._not_run: dict[str, str] = {}
        self._failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in what a test hands over."""
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if "gpu" in report.keywords:
            if report.skipped and isinstance(report.longrepr, tuple):
                self._not_run[name] = str(report.longrepr[2])
            elif report.failed:
                self._failed[name] = clean(report.longreprtext)
        for key, value in report.user_properties:
            if key == PROPERTY and report.when == "teardown":
                self._scenarios.append({"test": name, **json.loads(str(value))})

    def content(self) -> dict[str, Any]:
        """What the file holds: sizes in bytes, times in seconds."""
        for scenario in self._scenarios:
            scenario["seconds"] = round(self._seconds[scenario["test"]], 3)
        return {
            "environment": environment(),
            "scenarios": self._scenarios,
            "not_run": self._not_run,
            "failed": self._failed,
        }

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        if self._file is not None:
            text = json.dumps(self.content(), indent=1)
            self._file.write_text(text + "\n", "utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, where a real card was measured or a file was asked for."""
        real = [s for s in self._scenarios if s["card"] == "cuda"]
        shown = real or (self._scenarios if self._file is not None else [])
        if not shown:
            return
        terminalreporter.section("cards")
        for line in table(shown, self._seconds):
            terminalreporter.write_line(line)
        if self._file is not None:
            terminalreporter.write_line(f"every figure: {self._file}")


def table(scenarios: list[dict[str, Any]], seconds: dict[str, float]) -> list[str]:
    """One line a scenario, and the allowances of each budget."""
    lines = []
    for one in scenarios:
        figures: list[dict[str, Any]] = one["figures"]
        boots = [figure for figure in figures if "kv" in figure]
        applied = sum(boot["applied"] is not None for boot in boots)
        took = seconds.get(one["test"], 0.0)
        lines.append(
            f"{one['card']:9} {one['scenario']:30} {took:5.1f} s {len(boots):2} boots, "
            f"{applied} applied, on {gib(one['total'])}"
        )
        lines += [
            f"          {row['what']:10} budget {gib(row['total_budget'])}, profiled "
            f"{gib(row['profiled_allowance'])}, reused {gib(row['reused_allowance'])}"
            for row in figures
            if row["what"].startswith(_TABLE)
        ]
    return lines
