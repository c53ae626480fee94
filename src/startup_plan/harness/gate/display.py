# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a gate: how far it is, and the matrix at the end."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Final, TextIO, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from startup_plan.harness.verdict.terminal import Line, Style, closing, comparison, header, matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.verdict.judgement import Evidence, Report

    from . import run as gate_run
    from .run import GateRequest

_STYLES: Final[dict[Style, str]] = {
    "plain": "",
    "heading": "bold",
    "good": "green",
    "bad": "bold red",
    "dim": "dim",
}
_LOG_WIDTH: Final = 100
_STEPS: Final = 4
"""A log file hears this often how far the run is."""


@final
class Display:
    """Puts the judgement on one stream, and how far the run is on another."""

    def __init__(self, judgement: TextIO, progress: TextIO, *, in_full: bool = True) -> None:
        """Print to these streams; what was known before the run in full, or only its ids."""
        self._in_full = in_full
        self._terminal = judgement.isatty()
        self._out = Console(file=judgement, highlight=False, soft_wrap=True)
        self._err = Console(file=progress, highlight=False, soft_wrap=True)
        self._live = progress.isatty() and not self._err.is_dumb_terminal

    @contextlib.contextmanager
    def progress(self, request: GateRequest) -> Iterator[gate_run.Progress]:
        """Show a line that moves, or on a stream that is no terminal a few plain lines."""
        if not self._live:
            yield _PlainProgress(self._err, request.subject)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._err, transient=True) as bar:
            yield _LiveProgress(bar, request.subject)

    def show(self, report: Report) -> None:
        """Print the whole judgement."""
        width = shutil.get_terminal_size().columns if self._terminal else _LOG_WIDTH
        lines = (
            *header(report),
            *comparison(report, width),
            *matrix(report, width, in_full=self._in_full),
            Line(""),
            *closing(report),
        )
        for line in lines:
            self._out.print(Text(line.text, _STYLES[line.style]))


@final
class _LiveProgress:
    def __init__(self, bar: Progress, subject: str) -> None:
        self._bar = bar
        self._task = bar.add_task(f"judging {subject}", total=None, words="loading")

    def update(self, evidence: Evidence) -> None:
        """Move the bar."""
        if evidence.catalogue:
            self._bar.update(
                self._task,
                total=len(evidence.catalogue),
                completed=len(evidence.records),
                words=_words(evidence),
            )


@final
class _PlainProgress:
    def __init__(self, console: Console, subject: str) -> None:
        self._console = console
        self._subject = subject
        self._step = -1
        self._broken: set[str] = set()

    def update(self, evidence: Evidence) -> None:
        """Print a line for every newly broken requirement, and at every quarter of the tests."""
        if not evidence.catalogue:
            return
        for broken in sorted(_broken(evidence) - self._broken):
            self._broken.add(broken)
            self._print(f"counterexample for {broken}")
        step = _STEPS * len(evidence.records) // len(evidence.catalogue)
        if step > self._step:
            self._step = step
            self._print(_words(evidence))

    def _print(self, words: str) -> None:
        self._console.print(Text(f"judging {self._subject}: {words}"))


def _words(evidence: Evidence) -> str:
    open_ids = {
        requirement_id
        for nodeid, ids in evidence.catalogue.items()
        if nodeid not in evidence.records
        for requirement_id in ids
    }
    all_ids = {requirement_id for ids in evidence.catalogue.values() for requirement_id in ids}
    found = len(_broken(evidence))
    return (
        f"{len(all_ids - open_ids)}/{len(all_ids)} requirements, "
        f"{len(evidence.records)}/{len(evidence.catalogue)} tests, "
        f"{found} counterexample{'' if found == 1 else 's'}"
    )


def _broken(evidence: Evidence) -> set[str]:
    return {broken for record in evidence.records.values() for broken in record.violated}
