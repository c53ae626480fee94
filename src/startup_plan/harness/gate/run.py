# SPDX-License-Identifier: Apache-2.0
"""Runs the suite on a subject in a child process, follows it live, and judges."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, final

from startup_plan.harness.verdict.judgement import Evidence, Report, SuiteFacts, Terms
from startup_plan.harness.verdict.record import clean
from startup_plan.support.apart import describe_end
from startup_plan.support.process_group import ProcessGroup, StopSignals
from startup_plan.support.scratch import fastest_folder, scratch_folder
from startup_plan.version import __version__

from .events import EventReader
from .hearing import Hearing
from .suite import FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_LOADED: Final = 3
INTERNAL: Final = 4

_POLL_SECONDS: Final = 0.05
_TAIL_LINES: Final = 25
_PYTEST_DONE: Final = (0, 1)
"""Exit statuses of pytest after a run to the end: everything passed, something failed."""

_PYTEST_NO_TEST: Final = 5
"""Exit status of pytest where nothing was collected."""


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
        terms: by what it is judged.
        suite: the folder that holds `pyproject.toml`, `conftest.py` and `tests`.
        profile: the Hypothesis profile.
        seed: where randomness starts, or None for the profile's own choice.
        workers: processes that run tests; 0 runs them in the child itself.
        state: the only crash state to judge, or None for all.
        backend: the accelerator of the simulated world.
        fail_fast: end the run at the first violation for which it fails.
    """

    subject: str
    terms: Terms
    suite: Path
    profile: str = "ci"
    seed: int | None = None
    workers: int = 0
    state: str | None = None
    backend: str = "cuda"
    fail_fast: bool = False


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
        suite = SuiteFacts(__version__, request.profile, request.seed)
        hearing = Hearing(EventReader(folder / "events"), request.terms, suite)
        output = folder / "output"
        command = _command(request, folder, worlds)
        with ProcessGroup(command, env=_environment(folder), output=output) as group:
            enough = False
            while (status := group.status) is None and stop.number is None and not enough:
                hearing.follow()
                progress.update(hearing.evidence)
                enough = request.fail_fast and hearing.fails(request.subject)
                time.sleep(_POLL_SECONDS)
            if stop.number is not None or enough:
                group.end(gently=True, hurry=lambda: stop.count > 1)
        hearing.follow()
        progress.update(hearing.evidence)
        if stop.number is not None:
            hearing.evidence.partial = f"interrupted by {stop.number.name}{_while(hearing)}"
            return GateOutcome(hearing.report(request.subject), 128 + stop.number)
        if enough:
            hearing.evidence.partial = "ended by --fail-fast at the first violation"
        else:
            _check(hearing, status, output)
    report = hearing.report(request.subject)
    return GateOutcome(report, report.exit_status)


def _while(hearing: Hearing) -> str:
    """What a run was at that had not come to its tests."""
    if hearing.subject is None:
        return " while the subject was being loaded"
    return "" if hearing.evidence.catalogue else " while the tests were being collected"


def _check(hearing: Hearing, status: int | None, output: Path) -> None:
    """Raise unless the child came to the end of the suite.

    Raises:
        GateError: the subject was refused, or the run broke down.
    """
    if hearing.refusal is not None:
        raise GateError(hearing.refusal, status=NOT_LOADED)
    tail, evidence = _tail(output), hearing.evidence
    if status is not None and status < 0:
        raise GateError(f"the run {describe_end(status)}", tail=tail)
    missing = evidence.catalogue.keys() - evidence.records.keys()
    if status not in _PYTEST_DONE or missing or not evidence.catalogue:
        raise GateError(_unfinished(evidence, status, missing), tail=tail)
    for record in evidence.records.values():
        blames_nobody = not record.violated and record.lacks is None and not record.undecided
        if record.outcome == "failed" and blames_nobody:
            raise GateError(f"{record.nodeid} failed and is tied to no requirement", tail=tail)


def _unfinished(evidence: Evidence, status: int | None, missing: Iterable[str]) -> str:
    if not evidence.catalogue and status in (*_PYTEST_DONE, _PYTEST_NO_TEST):
        return "the suite did not run to its end: no test was found"
    running = sorted(evidence.running)
    where = f" in {running[0]}" if running else ""
    left = sum(1 for _ in missing)
    return (
        f"the suite did not run to its end: pytest ended with status {status}{where}, "
        f"{left} of {len(evidence.catalogue)} tests had not finished"
    )


def _command(request: GateRequest, folder: Path, worlds: Path) -> list[str]:
    suite = request.suite
    command = [
        *(sys.executable, "-P", "-m", "pytest", "-q", "--tb=short", "-s"),
        *("-c", str(suite / "pyproject.toml"), "--rootdir", str(suite)),
        *("-p", "no:cacheprovider", "-p", "startup_plan.harness.session.plugin"),
        # Every crash of a worker is a finding about one test; the run goes on.
        "--max-worker-restart=1000",
        *("-p", "xdist", "-p", "hypothesispytest", "-p", "fakefs"),
        f"--basetemp={folder / 't'}",
        f"--subject={request.subject}",
        f"--backend={request.backend}",
        f"--gate-profile={request.profile}",
        f"--gate-events={folder / 'events'}",
        f"--gate-scratch={worlds}",
        f"--gate-parent={os.getpid()}",
    ]
    command += ["-n", str(request.workers)]
    if request.workers:
        command += ["--dist", "worksteal"]
    if request.seed is not None:
        command.append(f"--hypothesis-seed={request.seed}")
    if request.terms.only:
        command.append(f"--gate-only={','.join(request.terms.only)}")
    if request.state is not None:
        command.append(f"--gate-state={request.state}")
    if request.terms.required:
        command.append(f"--require={','.join(request.terms.required)}")
    folders = (suite / name for name in FOLDERS)
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
