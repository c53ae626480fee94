# SPDX-License-Identifier: Apache-2.0
"""The command `startup-plan gate`."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import click

from startup_plan.harness.contract import capabilities, choices
from startup_plan.harness.contract.known_gaps import KnownGapsError, describe_stale, load_known_gaps
from startup_plan.harness.contract.register import RegisterError, load_register
from startup_plan.harness.gate.run import INTERNAL, NOT_LOADED, GateError, GateRequest, run_gate
from startup_plan.harness.gate.suite import NoSuiteError, find_suite
from startup_plan.harness.stubs import backends
from startup_plan.harness.verdict.judgement import Terms
from startup_plan.harness.world.subject_name import SubjectName
from startup_plan.support.atomic_files import ReportPathError, check_writable, write_report
from startup_plan.support.environment import processors

from .subject_options import subject_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.verdict.judgement import Report

_PROFILES: Final = ("ci", "quick", "nightly", "mutation")
_MOST_WORKERS: Final = 8

_EPILOG: Final = """
Exit status: 0 every requirement that ran holds or is a known gap; 1 at least one is violated, or a
required capability is absent; 2 wrong usage, or a known gap that holds; 3 the subject could not be
loaded, is not what was asked for, or does not leave its judge's process alone; 4 something could
not be judged, or the run itself broke down; 130 after Ctrl-C and 143 after SIGTERM, with a partial
report that says so.
"""


@final
@dataclass(frozen=True, slots=True)
class Reports:
    """Where reports were asked for."""

    json: Path | None
    junit: Path | None
    html: Path | None

    def paths(self) -> list[Path]:
        """Give the paths that were asked for."""
        return [path for path in (self.json, self.junit, self.html) if path is not None]

    def check(self) -> None:
        """Find out before the run whether all of them can be written."""
        places = [path.resolve() for path in self.paths()]
        if len(set(places)) < len(places):
            raise click.UsageError("two reports cannot share one file; name another")
        for path in self.paths():
            check_writable(path)

    def write(self, report: Report) -> None:
        """Write all of them."""
        for path, render in self._renderers():
            write_report(path, render(report))

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
    "--known-gaps",
    type=Path,
    metavar="FILE",
    help="Accepted violations, one 'ID reason' a line; one that holds is an error.",
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
    known_gaps: Path | None,
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
    reports = Reports(json, junit, html)
    try:
        if quick and profile is not None:
            raise click.UsageError(
                "--quick is a profile of its own; leave out --quick or --profile"
            )
        register = load_register()
        terms = Terms(
            register,
            only=choices.known_ids("--only", only, register),
            gaps={} if known_gaps is None else load_known_gaps(known_gaps, register),
            required=choices.known_capabilities("--require", require),
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
        )
        reports.check()
        return _judge(request, reports, known_gaps)
    except (
        KnownGapsError,
        ReportPathError,
        choices.ChoiceError,
        backends.UnknownBackendError,
    ) as error:
        raise click.UsageError(str(error)) from error
    except (RegisterError, NoSuiteError) as error:
        return _complain(str(error), INTERNAL)
    except GateError as error:
        return _complain(error.sentence, error.status, error.tail)


def _judge(request: GateRequest, reports: Reports, gaps_file: Path | None) -> int:
    # rich takes its time, which a complaint about an option should not wait for.
    from startup_plan.harness.gate.display import Display  # noqa: PLC0415

    display = Display(sys.stdout, sys.stderr)
    with display.progress(request) as progress:
        outcome = run_gate(request, progress)
    display.show(outcome.report)
    reports.write(outcome.report)
    for path in reports.paths():
        click.echo(f"report   {path}", err=True)
    if outcome.report.stale and not outcome.report.partial:
        click.echo(f"Error: {describe_stale(outcome.report.stale, gaps_file)}", err=True)
    return outcome.status


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
