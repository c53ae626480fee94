# SPDX-License-Identifier: Apache-2.0
"""In the process that hears every result: what it tells, and what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import pytest

from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.known_gaps import describe_stale
from startup_plan.harness.gate import events as gate_events
from startup_plan.harness.verdict.record import clean
from startup_plan.harness.verdict.terminal import Style, closing, short_matrix

from .machine import environment
from .witness import PROPERTY, requirement_ids

if TYPE_CHECKING:
    from pathlib import Path

    from startup_plan.harness.gate.events import EventWriter
    from startup_plan.harness.gate.hearing import Hearing
    from startup_plan.harness.verdict.judgement import Report, SuiteFacts
    from startup_plan.harness.world.try_out import Tried

_CHEAP: Final = ("torch", "vllm", "root")
"""Capabilities that can be told at once; the others are tried when a test asks for them."""

_MARKUP: Final[dict[Style, dict[str, bool]]] = {
    "plain": {},
    "heading": {"bold": True},
    "good": {"green": True},
    "bad": {"red": True, "bold": True},
    "dim": {"light": True},
}


@final
class Catalogue:
    """Writes down, once a run, which tests there are; with xdist only a worker knows."""

    def __init__(self, events: EventWriter) -> None:
        """Write to `events`."""
        self._events = events

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the tests that were selected."""
        tests = {item.nodeid: requirement_ids(item) for item in session.items}
        self._events.write(gate_events.CATALOGUE, tests=tests)


@final
class Teller:
    """Tells what is judged and how each test ended.

    Args:
        events: where somebody listens.
        subject: what is judged.
        suite: what judges.
        required: capabilities that are tried before any test runs.
    """

    def __init__(
        self, events: EventWriter, subject: Tried, suite: SuiteFacts, required: tuple[str, ...]
    ) -> None:
        """Try what must be there, and say what is judged."""
        self._events = events
        self._subject = subject
        self._suite = suite
        self._environment = environment()
        self._probed = {
            name: (answer.present, answer.reason)
            for name in dict.fromkeys((*_CHEAP, *required))
            for answer in (capabilities.probe(name),)
        }
        events.write(
            gate_events.SESSION,
            subject={n: getattr(subject, n) for n in ("name", "file", "sha256", "version")},
            environment=self._environment,
            probed=self._probed,
        )

    def pytest_report_header(self) -> list[str]:
        """Say what is judged, and where."""
        facts, versions = self._subject, self._environment
        found = ", ".join(
            f"{name} {'present' if present else 'absent'}"
            for name, (present, _) in self._probed.items()
        )
        seed = "" if self._suite.seed is None else f", seed {self._suite.seed}"
        return [
            f"subject: {facts.name}, version {facts.version or 'unknown'}",
            f"subject file: {facts.file}",
            f"subject sha256: {facts.sha256}",
            f"startup-plan {self._suite.version}, profile {self._suite.profile}{seed}",
            f"simulated backend: {versions['backend']}",
            "versions: "
            + ", ".join(
                f"{name} {versions[name] or 'not installed'}"
                for name in ("python", "torch", "vllm", "hypothesis")
            ),
            f"capabilities: {found}; others are tried when a test asks",
            *([f"note: {versions['vllm_untried']}"] if versions["vllm_untried"] else []),
        ]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell that a test begins."""
        self._events.write(gate_events.STARTED, nodeid=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell what a finished test had to say, or that it took its process down."""
        for name, value in report.user_properties:
            if name == PROPERTY and report.when == "teardown":
                self._events.write(gate_events.FINISHED, record=value)
        if report.when not in ("setup", "call", "teardown"):
            story = f"the process that ran the test died: {clean(str(report.longrepr))}"
            self._events.write(gate_events.DIED, nodeid=report.nodeid, story=story)


@final
class Judgement:
    """Prints the judgement at the end of a session that no gate listens to.

    Args:
        hearing: hears what this session tells.
        subject: the name of what is judged.
        gaps_file: where accepted violations come from.
    """

    def __init__(self, hearing: Hearing, subject: str, gaps_file: Path | None) -> None:
        """Nothing was heard."""
        self._hearing = hearing
        self._subject = subject
        self._gaps_file = gaps_file

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail the session for what no single test can fail for."""
        if exitstatus == pytest.ExitCode.OK and self._report().exit_status:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the judgement, if anything was judged at all."""
        report = self._report()
        if not any(self._hearing.evidence.catalogue.values()) and not report.lacking:
            return
        width = terminalreporter._tw.fullwidth
        terminalreporter.section(f"requirements: {self._subject}")
        for line in (*short_matrix(report, width), *closing(report)):
            terminalreporter.write_line(line.text, **_MARKUP[line.style])
        if report.stale:
            terminalreporter.write_line(describe_stale(report.stale, self._gaps_file), red=True)

    def _report(self) -> Report:
        self._hearing.follow()
        return self._hearing.report(self._subject)
