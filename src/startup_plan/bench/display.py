# SPDX-License-Identifier: Apache-2.0
"""Does a benchmark for the command line: progress, the reports, and the exit status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from startup_plan.bench.results.html import render_html
from startup_plan.bench.results.record import NAME
from startup_plan.bench.results.table import show
from startup_plan.support.atomic_files import ReportPathError, write_report
from startup_plan.support.process_group import StopSignals

from .errors import RefusalError
from .run import Runner

if TYPE_CHECKING:
    from startup_plan.bench.orders.benchmark import Benchmark
    from startup_plan.bench.results.record import Results

PAGE: Final = "report.html"
_WIDTH: Final = 160


def measure(benchmark: Benchmark) -> int:
    """Do the benchmark, show it, and give the exit status.

    Raises:
        RefusalError: it turned out that it cannot be done as asked.
    """
    with StopSignals() as stop:
        runner = Runner(benchmark, stop, lambda line: click.echo(line, err=True))
        try:
            results = runner.run()
        except ReportPathError as error:
            raise RefusalError(str(error)) from error
        except RefusalError:
            if benchmark.output.is_dir():
                _write_page(runner.results, benchmark)
            raise
    _show_ends(results)
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        # A file has no width of its own; a table that is cut says nothing.
        console.width = _WIDTH
    show(results, console)
    _write_page(results, benchmark)
    click.echo(f"kept in {benchmark.output}: {NAME}, {PAGE}, logs, answers, caches", err=True)
    if results.status == "interrupted":
        return 130 if stop.number is None else 128 + stop.number
    return 1 if results.failed() or results.reason else 0


def _show_ends(results: Results) -> None:
    for run in results.runs:
        if run.tail:
            click.echo(f"the last lines of {run.folder}/server.log:", err=True)
            for line in run.tail[-20:]:
                click.echo(f"  {line}", err=True)


def _write_page(results: Results, benchmark: Benchmark) -> None:
    try:
        write_report(benchmark.output / PAGE, render_html(results))
    except ReportPathError as error:
        raise RefusalError(str(error)) from error
