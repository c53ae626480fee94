# SPDX-License-Identifier: Apache-2.0
"""From the events of a running suite to its judgement, whoever listens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, final

from startup_plan.harness.verdict.judgement import Evidence, SubjectFacts, build_report
from startup_plan.harness.verdict.record import Record

from . import events as gate_events

if TYPE_CHECKING:
    from startup_plan.harness.verdict.judgement import Report, SuiteFacts, Terms

    from .events import EventReader


@final
class Hearing:
    """What has been heard of a run so far, and what it comes to.

    Args:
        events: where the suite tells.
        terms: by what the subject is judged.
        suite: what judges.

    Attributes:
        evidence: everything that tests have said.
        refusal: why the subject could not be loaded, or None.
        subject: what was loaded, or None before that.
    """

    __slots__ = (
        "_began", "_environment", "_events", "_known", "_suite", "_terms",
        "evidence", "refusal", "subject",
    )  # fmt: skip

    def __init__(self, events: EventReader, terms: Terms, suite: SuiteFacts) -> None:
        """Nothing has been heard."""
        self._events = events
        self._terms = terms
        self._suite = suite
        self._began = time.monotonic()
        self._environment: dict[str, object] = {}
        self._known = 0
        self.evidence = Evidence()
        self.refusal: str | None = None
        self.subject: SubjectFacts | None = None

    def follow(self) -> None:
        """Take in what was said since the last call."""
        for event in self._events.read():
            self._hear(event)
        self.evidence.seconds = time.monotonic() - self._began

    def report(self, asked_for: str) -> Report:
        """Judge by what has been heard; `asked_for` names a subject that was never loaded."""
        return build_report(
            self._terms,
            self.evidence,
            subject=self.subject or SubjectFacts(asked_for, "", "", ""),
            suite=self._suite,
            environment=self._environment,
        )

    def fails(self, asked_for: str) -> bool:
        """Whether something has been heard for which the run fails, whatever comes next."""
        known = len(self.evidence.records)
        if known == self._known:
            return False
        self._known = known
        return bool(self.report(asked_for).failing)

    def _hear(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case gate_events.SESSION:
                self.subject = SubjectFacts(**event["subject"])
                self._environment = event["environment"]
                for name, (present, reason) in event["probed"].items():
                    self.evidence.probed[name] = (present, reason)
            case gate_events.REFUSED:
                self.refusal = event["sentence"]
            case gate_events.CATALOGUE:
                tests: dict[str, list[str]] = event["tests"]
                self.evidence.catalogue = {test: tuple(ids) for test, ids in tests.items()}
            case gate_events.STARTED:
                self.evidence.running.add(event["nodeid"])
            case gate_events.FINISHED:
                self.evidence.add(Record.from_json(event["record"]))
            case gate_events.DIED:
                nodeid = event["nodeid"]
                ids = self.evidence.catalogue.get(nodeid, ())
                # How a process ended is no evidence about any one sentence.
                died = Record(nodeid, ids, "failed", story=event["story"], undecided=True)
                self.evidence.add(died)
