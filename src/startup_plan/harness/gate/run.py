# SPDX-License-Identifier: Apache-2.0
"""Runs the suite on a subject in a child process, follows it live, and judges."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from startup_plan.harness.verdict.judgement import (
    Evidence,
    Report,
    SubjectFacts,
    SuiteFacts,
    build_report,
)
from startup_plan.harness.verdict.record import Record, clean
from startup_plan.support.process_group import ProcessGroup, StopSignals
from startup_plan.support.scratch import fastest_folder, scratch_folder

from . import events as gate_events
from .events import EventReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from startup_plan.harness.contract.register import Register

NOT_LOADED: Final = 3
INTERNAL: Final = 4

_POLL_SECONDS: Final = 0.05
_TAIL_LINES: Final = 25
SUITE_FOLDERS: Final = ("tests/property", "tests/faults", "tests/gpu", "tests/vllm")
_PYTEST_DONE: Final = (0, 1)
"""Exit statuses of pytest after a run to the end: everything passed, something failed."""

_PYTEST_BROKE: Final = (2, 3, 4)
"""Exit statuses of pytest when it was interrupted, found a defect in itself, or was misused."""


class GateError(Exception):
    """The run came to no judgement.

    Args:
        sentence: what went wrong, and the remedy.
        status: the exit status of the gate.
        tail: the last lines that the run printed, where they help.
    """

    def __init__(self, sentence: str, *, status: int = INTERNAL, tail: str = "") -> None:
        """Keep the parts for whoever prints them."""
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        self.tail = tail


@final
@dataclass(frozen=True, slots=True)
class GateRequest:
    """What to judge, by what, and how.

    Attributes:
        subject: what was asked for, as `load_subject` takes it.
        register: the requirements.
        suite: the folder that holds `pyproject.toml`, `conftest.py` and `tests`.
        profile: the Hypothesis profile.
        seed: where randomness starts, or None for the profile's own choice.
        workers: processes that run tests; 0 runs them in the child itself.
        only: requirement ids to which the run is limited; empty for all.
        gaps: accepted violations, id to reason.
        required: capabilities whose absence fails the run.
        state: the only crash state to judge, or None for all.
    """

    subject: str
    register: Register
    suite: Path
    profile: str = "ci"
    seed: int | None = None
    workers: int = 0
    only: tuple[str, ...] = ()
    gaps: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    state: str | None = None


@final
@dataclass(frozen=True, slots=True)
class GateOutcome:
    """A judgement and the exit status that goes with it."""

    report: Report
    status: int


class Progress(Protocol):
    """Whoever shows how far a run has come."""

    def update(self, evidence: Evidence) -> None:
        """Show what is known now; called several times a second."""


@final
class NoProgress:
    """Shows nothing."""

    def update(self, evidence: Evidence) -> None:
        """Do nothing."""


def find_suite() -> Path:
    """Find the suite: inside the installed package, or in the checkout around it.

    Raises:
        GateError: when neither is there.
    """
    package = Path(__file__).parents[2]
    for folder in (package / "_suite", package.parents[1]):
        if (folder / "pyproject.toml").is_file() and (folder / SUITE_FOLDERS[0]).is_dir():
            return folder
    raise GateError(
        f"the suite is missing from {package}: install startup-plan again, "
        "from a wheel or from a checkout"
    )


def suite_version() -> str:
    """Give the version of this package, or "unknown" for a copy that was never installed."""
    try:
        return metadata.version("startup-plan")
    except metadata.PackageNotFoundError:
        return "unknown"


def run_gate(request: GateRequest, progress: Progress | None = None) -> GateOutcome:
    """Judge a subject.

    Ctrl-C or SIGTERM ends every process of the run; what was found until then is judged as a
    partial report.

    Raises:
        GateError: when the subject could not be loaded, or the run broke down.
    """
    progress = progress or NoProgress()
    with (
        StopSignals() as stop,
        scratch_folder() as folder,
        scratch_folder(fastest_folder()) as worlds,
    ):
        run = _Run(EventReader(folder / "events"), progress)
        output = folder / "output"
        command = _command(request, folder, worlds)
        with ProcessGroup(command, env=_environment(folder), output=output) as group:
            while (status := group.status) is None and stop.number is None:
                run.follow()
                time.sleep(_POLL_SECONDS)
            if stop.number is not None:
                group.end(gently=True, hurry=lambda: stop.count > 1)
        run.follow()
        if stop.number is not None:
            run.evidence.partial = f"interrupted by {stop.number.name}"
            return GateOutcome(run.report(request), 128 + stop.number)
        run.check(status, output)
    report = run.report(request)
    return GateOutcome(report, report.exit_status)


@final
class _Run:
    """What has been heard from the child so far."""

    def __init__(self, events: EventReader, progress: Progress) -> None:
        self._events = events
        self._progress = progress
        self._began = time.monotonic()
        self._refusal: str | None = None
        self._environment: dict[str, object] = {}
        self._subject: SubjectFacts | None = None
        self.evidence = Evidence()

    def follow(self) -> None:
        for event in self._events.read():
            self._hear(event)
        self.evidence.seconds = time.monotonic() - self._began
        self._progress.update(self.evidence)

    def _hear(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case gate_events.SESSION:
                self._subject = SubjectFacts(**event["subject"])
                self._environment = event["environment"]
                for name, (present, reason) in event["probed"].items():
                    self.evidence.probed[name] = (present, reason)
            case gate_events.REFUSED:
                self._refusal = event["sentence"]
            case gate_events.CATALOGUE:
                tests: dict[str, list[str]] = event["tests"]
                self.evidence.catalogue = {test: tuple(ids) for test, ids in tests.items()}
            case gate_events.STARTED:
                self.evidence.running.add(event["nodeid"])
            case gate_events.FINISHED:
                self.evidence.add(Record.from_json(event["record"]))

    def check(self, status: int | None, output: Path) -> None:
        """Raise unless the child came to the end of the suite."""
        if self._refusal is not None:
            raise GateError(self._refusal, status=NOT_LOADED)
        tail = _tail(output)
        if self._subject is None and status not in _PYTEST_BROKE:
            how = f"ended with status {status}"
            sentence = f"the subject cannot be loaded: the process that imported it {how}"
            raise GateError(sentence, status=NOT_LOADED, tail=tail)
        if status is not None and status < 0:
            raise GateError(f"the run was killed by signal {-status}", tail=tail)
        missing = self.evidence.catalogue.keys() - self.evidence.records.keys()
        if status not in _PYTEST_DONE or missing or not self.evidence.catalogue:
            nothing = not self.evidence.catalogue and status in (*_PYTEST_DONE, 5)
            what = "no test was found" if nothing else f"pytest ended with status {status}"
            raise GateError(f"the suite did not run to its end: {what}", tail=tail)
        for record in self.evidence.records.values():
            if record.outcome == "failed" and not record.violated and record.lacks is None:
                raise GateError(f"{record.nodeid} failed and is tied to no requirement", tail=tail)

    def report(self, request: GateRequest) -> Report:
        unknown = SubjectFacts(request.subject, "", "", "")
        return build_report(
            request.register,
            self.evidence,
            subject=self._subject or unknown,
            suite=SuiteFacts(suite_version(), request.profile, request.seed),
            environment=self._environment,
            gaps=request.gaps,
            only=request.only,
            required=request.required,
        )


def _command(request: GateRequest, folder: Path, worlds: Path) -> list[str]:
    suite = request.suite
    command = [
        *(sys.executable, "-P", "-m", "pytest", "-q", "--tb=short", "-W", "error"),
        *("-c", str(suite / "pyproject.toml"), "--rootdir", str(suite)),
        *("-p", "no:cacheprovider", "-p", "startup_plan.harness.session.plugin"),
        # Every crash of a worker is a finding about one test; the run goes on.
        "--max-worker-restart=1000",
        *("-p", "xdist", "-p", "hypothesispytest", "-p", "fakefs"),
        f"--basetemp={folder / 't'}",
        f"--subject={request.subject}",
        f"--gate-profile={request.profile}",
        f"--gate-events={folder / 'events'}",
        f"--gate-scratch={worlds}",
    ]
    if request.workers:
        command += ["-n", str(request.workers), "--dist", "worksteal"]
    if request.seed is not None:
        command.append(f"--hypothesis-seed={request.seed}")
    if request.only:
        command.append(f"--gate-only={','.join(request.only)}")
    if request.state is not None:
        command.append(f"--gate-state={request.state}")
    if request.required:
        command.append(f"--require={','.join(request.required)}")
    folders = (suite / name for name in SUITE_FOLDERS)
    return [*command, *(str(tests) for tests in folders if tests.is_dir())]


def _environment(folder: Path) -> dict[str, str]:
    """Give the child the user's environment, less what would change how pytest runs."""
    child = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "PYTHONWARNINGS", "HYPOTHESIS_PROFILE"))
    }
    # Plugins that happen to be installed may shuffle tests or change what a warning means.
    child["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    child.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(_storage(folder)))
    return child


def _storage(folder: Path) -> Path:
    """Choose where Hypothesis keeps its files: never in the folder the user happens to be in."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    storage = Path(cache, "startup-plan", "hypothesis")
    with contextlib.suppress(OSError):
        storage.mkdir(parents=True, exist_ok=True)
        if os.access(storage, os.W_OK | os.X_OK):
            return storage
    return folder / "hypothesis"


def _tail(output: Path) -> str:
    try:
        text = output.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""
    lines = [clean(line) for line in text.splitlines()]
    return "\n".join([line for line in lines if line][-_TAIL_LINES:])
