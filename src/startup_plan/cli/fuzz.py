# SPDX-License-Identifier: Apache-2.0
"""`startup-plan fuzz`: coverage-guided fuzzing of a subject's look-up, for as long as one likes."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from pathlib import Path
from typing import Final

import click

from startup_plan.support.apart import describe_end
from startup_plan.support.process_group import ProcessGroup
from startup_plan.support.scratch import scratch_folder

_NOT_LOADED: Final = 3
_BROKE: Final = 4
_MARGIN: Final = 60
"""Seconds that the fuzzer may take for its start and its end, beside its runs."""

_POLL_SECONDS: Final = 0.1


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("subject", default="reference")
@click.option("--runs", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--seconds", type=click.IntRange(min=1), default=60, show_default=True)
@click.option(
    "--corpus",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of inputs to start from; new ones are kept there.",
)
def fuzz(subject: str, runs: int, seconds: int, corpus: Path | None) -> int:
    """Look for bytes that a look-up of SUBJECT does not survive, or applies.

    Exit status 0 if none were found, 1 if some were, 2 for wrong usage, 3 if the subject cannot be
    loaded, 4 if the fuzzer did not come to its end. Needs the extra `fuzz` (atheris).
    """
    if importlib.util.find_spec("atheris") is None:
        raise click.UsageError(
            "atheris is not installed; install the extra: pip install 'startup-plan[fuzz]'"
        )
    # The harness takes its time, which a complaint about an option should not wait for.
    from startup_plan.harness.world.loading import SubjectError  # noqa: PLC0415
    from startup_plan.harness.world.try_out import try_out  # noqa: PLC0415

    try:
        try_out(subject)
    except SubjectError as error:
        return _complain(str(error), _NOT_LOADED)
    if corpus is not None:
        corpus.mkdir(parents=True, exist_ok=True)
    with scratch_folder() as folder:
        story, output = folder / "story", folder / "output"
        command = [sys.executable, "-m", "startup_plan.harness.damage.fuzz", subject, str(story)]
        command += [str(runs), str(seconds), *([str(corpus)] if corpus else [])]
        status = _ended(command, output, seconds + _MARGIN)
        said = output.read_text("utf-8", errors="replace")
        if story.exists():
            click.echo(story.read_text("utf-8"))
            return 1
    tried = re.search(r"Done (\d+) runs in \d+ second", said)
    if status is None or status or tried is None:
        # libFuzzer says at its end what it has done; without that, the subject ended the process.
        how = f"took more than {seconds + _MARGIN} s" if status is None else describe_end(status)
        click.echo(said[-3000:], err=True)
        return _complain(f"the fuzzer {how} before its runs were done", _BROKE)
    covered = re.findall(r"cov: (\d+)", said)
    edges = covered[-1] if covered else "?"
    click.echo(f"{tried[1]} runs, {edges} edges of {subject} covered, nothing found")
    return 0


def _ended(command: list[str], output: Path, longest: float) -> int | None:
    """Let the fuzzer run; its status, or None where it had to be ended."""
    deadline = time.monotonic() + longest
    with ProcessGroup(command, env=os.environ, output=output) as group:
        while (status := group.status) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    return status


def _complain(sentence: str, status: int) -> int:
    click.echo(f"Error: {sentence}", err=True)
    return status
