# SPDX-License-Identifier: Apache-2.0
"""The command `startup-plan gate`."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import click

from startup_plan.harness.contract import capabilities, choices
from startup_plan.harness.contract.known_gaps import KnownGapsError, describe_stale
from startup_plan.harness.contract.register import RegisterError, load_register
from startup_plan.harness.gate.releases import NoReleaseError
from startup_plan.harness.gate.run import INTERNAL, NOT_LOADED, GateError, GateRequest, run_gate
from startup_plan.harness.gate.suite import NoSuiteError, find_suite
from startup_plan.harness.stubs import backends
from startup_plan.harness.verdict.base import BaseError as BaseReportError
from startup_plan.harness.verdict.judgement import Terms
from startup_plan.harness.world.subject_name import SubjectName
from startup_plan.support.atomic_files import ReportPathError, check_writable, write_report
from startup_plan.support.environment import processors

from .bases import base_request, check_gaps_file, find_base, write_gaps
from .bases import known_gaps as accepted
from .main import INTERRUPTED
from .subject_options import subject_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.contract.register import Register
    from startup_plan.harness.gate.display import Display
    from startup_plan.harness.gate.run import GateOutcome
    from startup_plan.harness.verdict.judgement import Report

_PROFILES: Final = ("ci", "quick", "nightly", "mutation")
_MOST_WORKERS: Final = 8

_EPILOG: Final = """
Exit status: 0 every requirement that ran holds or is a known gap; 1 at least one is violated (with
--against: and not inherited), or a required capability is absent; 2 wrong usage, or a known gap
that holds; 3 the subject could not be loaded, is not what was asked for, or does not leave its
judge's process alone; 4 something could not be judged, or the run itself broke down; 130 after
Ctrl-C and 143 after SIGTERM, with a partial report that says so.
"""


@final
@dataclass(frozen=True, slots=True)
class Reports:
    """Where reports were asked for, and a list of what is violated."""

    json: Path | None
    junit: Path | None
    html: Path | None
    gaps: Path | None = None

    def paths(self) -> list[Path]:
        """Give the paths that were asked for."""
        paths = (self.json, self.junit, self.html, self.gaps)
        return [path for path in paths if path is not None]

    def check(self, register: Register) -> None:
        """Find out before the run whether all of them can be written."""
        places = [path.resolve() for path in self.paths()]
        if len(set(places)) < len(places):
            raise click.UsageError("two reports cannot share one file; name another")
        for path in self.paths():
            check_writable(path)
        if self.gaps is not None:
            check_gaps_file(self.gaps, register)

    def write(self, report: Report, register: Register) -> list[Path]:
        """Write all of them, and give their paths.

        A run that was cut short has not found all that is violated, so that it writes no list.
        """
        for path, render in self._renderers():
            write_report(path, render(report))
        if self.gaps is None:
            return self.paths()
        if report.partial is not None:
            click.echo(f"The run was cut short: {self.gaps} is not written.", err=True)
            return [path for path in self.paths() if path is not self.gaps]
        write_gaps(self.gaps, report, register)
        return self.paths()

    def _renderers(self) -> list[tuple[Path, Callable[[Report], str]]]:
        # When they are asked for: the command line must answer at once.
        from startup_plan.harness.verdict.html import render_html  # noqa: PLC0415
        from startup_plan.harness.verdict.json_form import render_json  # noqa: PLC0415
        from startup_plan.harness.verdict.junit import render_junit  # noqa: PLC0415

        pairs = ((self.json, render_json), (self.junit, render_junit), (self.html, render_html))
        return [(path, render) for path, render in pairs if path is not None]


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("subject", default="reference")
@subject_options
@click.option("--json", type=Path, metavar="FILE", help="Write the report as JSON.")
@click.option("--junit", type=Path, metavar="FILE", help="Write the report as JUnit XML.")
@click.option("--html", type=Path, metavar="FILE", help="Write the report as one HTML page.")
@click.option("--only", metavar="ID,…", help="Judge only these requirements.")
@click.option("--quick", is_flag=True, help="Try few examples: for the inner loop.")
@click.option("--profile", type=click.Choice(_PROFILES), help="How hard to try; ci by default.")
@click.option(
    "--against",
    metavar="BASE",
    help="Fail only for what is not violated by BASE as well: a subject, a report (.json), or a "
    "release such as vllm-0.33.0, whose report comes with this command.",
)
@click.option(
    "--known-gaps",
    metavar="FILE",
    help="Accepted violations, one 'ID reason' a line, or a release; one that holds is an error.",
)
@click.option(
    "--write-known-gaps",
    "gaps_file",
    type=Path,
    metavar="FILE",
    help="Write what is violated as a known-gaps file, or bring one up to date.",
)
@click.option("--fail-fast", is_flag=True, help="End the run at the first violation.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show known gaps and what is inherited in full."
)
@click.option(
    "--require",
    metavar="CAPABILITY,…",
    help=f"Fail where one of these is absent: {', '.join(capabilities.names())}.",
)
@click.option(
    "--backend",
    default="cuda",
    metavar="NAME",
    help=f"The simulated accelerator, one of {', '.join(backends.BACKENDS)}; cuda by default.",
)
@click.option("--state", metavar="ID", help="Judge one state of the disk after a power loss.")
@click.option("--seed", type=click.IntRange(min=0), help="Where randomness starts.")
@click.option(
    "-n",
    "workers",
    type=click.IntRange(min=0),
    metavar="WORKERS",
    help=f"Processes that run tests: by default one a CPU, at most {_MOST_WORKERS}.",
)
def gate(
    subject: str,
    on: str | None,
    adapter: str | None,
    json: Path | None,
    junit: Path | None,
    html: Path | None,
    only: str | None,
    quick: bool,
    profile: str | None,
    against: str | None,
    known_gaps: str | None,
    gaps_file: Path | None,
    fail_fast: bool,
    verbose: bool,
    require: str | None,
    backend: str,
    state: str | None,
    seed: int | None,
    workers: int | None,
) -> int:
    """Judge a startup plan, requirement by requirement.

    SUBJECT is `reference` (the bundled one), `vllm` (the installed one), package.module, a path to
    a Python file, a path to a wheel, or WHEEL!MEMBER.
    """
    subject = str(SubjectName(subject, on, adapter))
    reports = Reports(json, junit, html, gaps_file)
    try:
        if quick and profile is not None:
            raise click.UsageError(
                "--quick is a profile of its own; leave out --quick or --profile"
            )
        if fail_fast and gaps_file is not None:
            raise click.UsageError(
                "--fail-fast does not find all that is violated; leave out --write-known-gaps"
            )
        register = load_register()
        terms = Terms(
            register,
            only=choices.known_ids("--only", only, register),
            gaps=accepted(known_gaps, register),
            required=choices.known_capabilities("--require", require),
            base=find_base(against),
        )
        backends.choose(backend)
        if state is not None:
            _check_state(state, subject)
        chosen = "quick" if quick else profile or "ci"
        request = GateRequest(
            subject=subject,
            terms=terms,
            suite=find_suite(),
            profile=chosen,
            # Named in the report, so that what a random run found can be found again.
            seed=secrets.randbelow(1 << 32) if seed is None and chosen == "nightly" else seed,
            workers=min(processors(), _MOST_WORKERS) if workers is None else workers,
            state=state,
            backend=backend,
            fail_fast=fail_fast,
        )
        reports.check(register)
        judged = against if terms.base is None else None
        return _Command(reports, known_gaps, in_full=verbose).run(request, judged)
    except (
        KnownGapsError,
        NoReleaseError,
        ReportPathError,
        choices.ChoiceError,
        backends.UnknownBackendError,
    ) as error:
        raise click.UsageError(str(error)) from error
    except BaseReportError as error:
        raise click.UsageError(f"--against: {error}") from error
    except (RegisterError, NoSuiteError) as error:
        return _complain(str(error), INTERNAL)
    except GateError as error:
        return _complain(error.sentence, error.status, error.tail)


@final
@dataclass(frozen=True, slots=True)
class _Command:
    """What is done around a run: base, screen, reports.

    Attributes:
        reports: what is written after it.
        gaps_source: where accepted violations come from.
        in_full: whether the screen shows in full what was known before.
    """

    reports: Reports
    gaps_source: str | None
    in_full: bool

    def run(self, request: GateRequest, against: str | None) -> int:
        """Judge, show and write; `against` names a base that has to be judged first."""
        if against is None:
            return self._finish(request, self._judged(request))
        # A mistyped subject must not wait until its base is judged.
        _must_load(request.subject)
        try:
            base = self._judged(base_request(request, against))
        except GateError as error:
            sentence = f"--against: {error.sentence}"
            raise GateError(sentence, status=error.status, tail=error.tail) from error
        if base.report.partial is not None:
            click.echo(
                f"{base.report.partial}, while the base {against} was judged; "
                f"{request.subject} was not judged"
            )
            return base.status
        # As for a report in a file: one way from a judgement to a base.
        from startup_plan.harness.verdict.base import base_of  # noqa: PLC0415
        from startup_plan.harness.verdict.json_form import as_dict  # noqa: PLC0415

        found = base_of(as_dict(base.report), against, judged=True)
        request = replace(request, terms=replace(request.terms, base=found))
        return self._finish(request, self._judged(request))

    def _judged(self, request: GateRequest) -> GateOutcome:
        with self._display().progress(request) as progress:
            return run_gate(request, progress)

    def _finish(self, request: GateRequest, outcome: GateOutcome) -> int:
        report = outcome.report
        self._display().show(report)
        for path in self.reports.write(report, request.terms.register):
            click.echo(f"report   {path}", err=True)
        if report.stale and not report.partial:
            click.echo(f"Error: {describe_stale(report.stale, self.gaps_source)}", err=True)
        return outcome.status

    def _display(self) -> Display:
        # rich takes its time, which a complaint about an option should not wait for.
        from startup_plan.harness.gate.display import Display  # noqa: PLC0415

        return Display(sys.stdout, sys.stderr, in_full=self.in_full)


def _must_load(subject: str) -> None:
    from startup_plan.harness.world.loading import SubjectError  # noqa: PLC0415
    from startup_plan.harness.world.try_out import try_out  # noqa: PLC0415

    try:
        try_out(subject)
    except SubjectError as error:
        raise GateError(str(error), status=NOT_LOADED) from error
    except KeyboardInterrupt as error:
        raise _interrupted(subject) from error


def _interrupted(subject: str) -> GateError:
    return GateError(f"interrupted while {subject} was being loaded", status=INTERRUPTED)


def _complain(sentence: str, status: int, tail: str = "") -> int:
    if tail:
        click.echo(f"{tail}\n", err=True)
    click.echo(f"Error: {sentence}", err=True)
    return status


def _check_state(text: str, subject: str) -> None:
    # Enumerating states needs the whole harness, which other complaints should not wait for.
    from startup_plan.harness.power_loss.find import UnknownStateError, check_state  # noqa: PLC0415
    from startup_plan.harness.world.loading import SubjectError  # noqa: PLC0415

    try:
        check_state(text, subject)
    except UnknownStateError as error:
        raise click.UsageError(f"--state: {error}") from error
    except SubjectError as error:
        raise GateError(str(error), status=NOT_LOADED) from error
    except KeyboardInterrupt as error:
        raise _interrupted(subject) from error
