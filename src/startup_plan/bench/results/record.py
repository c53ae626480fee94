# SPDX-License-Identifier: Apache-2.0
"""The results of a benchmark, and the file `results.json` that holds them; see docs/benchmark.md.

The file is written anew after every step, so that a crash leaves what there was.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, final

from startup_plan.support.atomic_files import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from startup_plan.bench.server.launch import Ending
    from startup_plan.bench.server.stages import StartupStage

SCHEMA: Final = 1
FORM: Final = f"startup-plan/bench/{SCHEMA}"
"""Which form `results.json` has: that of `schemas/bench-1.json`."""

NAME: Final = "results.json"

Verdict = Literal["passed", "failed", "not-applicable"]
Status = Literal["running", "finished", "interrupted", "refused", "broken"]


@final
@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked.

    Args:
        name: what; the list is in docs/benchmark.md.
        phase: the phase it is about, or None if it is about several.
        repeat: the round it is about, or None likewise.
        verdict: `passed`, `failed`, or `not-applicable`.
        evidence: a sentence with the facts.
    """

    name: str
    phase: str | None
    repeat: int | None
    verdict: Verdict
    evidence: str


@final
@dataclass(slots=True)
class Answer:
    """What came back for one request.

    Args:
        request: its name.
        status: the HTTP status, or None if there was no answer.
        seconds: how long the answer took.
        choices: what is compared.
        trouble: why there was none.
    """

    request: str
    status: int | None
    seconds: float
    choices: list[Any]
    trouble: str = ""


@final
@dataclass(slots=True)
class LogFact:
    """A line of the log that said something; `at` is in seconds from the launch."""

    kind: str
    line: int
    at: float | None
    process: str
    values: dict[str, str]
    text: str


@final
@dataclass(slots=True)
class Run:
    """One server, from its launch to its end. All times in seconds, counted from the launch.

    Args:
        phase: the name of the phase.
        repeat: the round, from 1.
        folder: below the output folder: log, environment, responses.
        caches: below the output folder.
        settings: the variables that the phase set.
        launched: when, in UTC.
        healthy: until the first healthy answer, or None if there was none.
        died: the exit status of a server that ended before it was healthy, or None.
        answered: until the first request was answered in full.
        answers: one for each request.
        stages: where the time went.
        facts: what the log said.
        traced: whether the log listed the traced source files.
        ending: how it ended.
        port_before: who listened on the port before the launch.
        port_after: who listened on it after the end.
        tail: the last lines of the log, if the server ended by itself or never got healthy.
        traceback: the first traceback of the log, if it ended by itself.
    """

    phase: str
    repeat: int
    folder: str
    caches: str
    settings: dict[str, str]
    launched: str
    healthy: float | None = None
    died: int | None = None
    answered: float | None = None
    answers: list[Answer] = field(default_factory=list)
    stages: list[StartupStage] = field(default_factory=list)
    facts: list[LogFact] = field(default_factory=list)
    traced: bool = False
    ending: Ending | None = None
    port_before: str | None = None
    port_after: str | None = None
    tail: list[str] = field(default_factory=list)
    traceback: list[str] = field(default_factory=list)

    def having(self, *kinds: str) -> list[LogFact]:
        """Give what the log said of these kinds."""
        return [fact for fact in self.facts if fact.kind in kinds]


@final
@dataclass(slots=True)
class Results:
    """All of a benchmark.

    Args:
        status: `running` until it is over.
        reason: why it did not get to its end.
        version: of this package.
        started: when, in UTC.
        ended: when, in UTC.
        command: the server's, less secrets.
        settings: what else was asked for.
        requests: name, endpoint, sha256 and whether it is greedy, of each request.
        machine: where it ran.
        held_equal: what was the same for all servers, in words.
        not_held_equal: what may differ, in words.
        runs: one for each server.
        checks: one for each thing checked.
        figures: medians and spread, see docs/benchmark.md.
    """

    version: str
    started: str
    command: list[str]
    settings: dict[str, Any]
    requests: list[dict[str, Any]]
    machine: dict[str, Any]
    held_equal: list[str]
    not_held_equal: list[str]
    status: Status = "running"
    reason: str | None = None
    ended: str | None = None
    runs: list[Run] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def failed(self) -> list[Check]:
        """Give the checks that failed."""
        return [check for check in self.checks if check.verdict == "failed"]

    def save(self, folder: Path) -> None:
        """Write `results.json` in one step.

        Raises:
            ReportPathError: it cannot be written.
        """
        document = {"$schema": FORM, "schema": SCHEMA, **asdict(self)}
        write_report(folder / NAME, json.dumps(document, indent=2) + "\n")
