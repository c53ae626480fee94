# SPDX-License-Identifier: Apache-2.0
"""`startup-plan fuzz`: coverage-guided fuzzing of a subject's look-up, for as long as one likes."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click


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
    loaded. Needs the extra `fuzz` (atheris).
    """
    if importlib.util.find_spec("atheris") is None:
        raise click.UsageError(
            "atheris is not installed; install the extra: pip install 'startup-plan[fuzz]'"
        )
    # The harness takes its time, which a complaint about an option should not wait for.
    from startup_plan.harness.world.loading import SubjectError, load_subject  # noqa: PLC0415

    try:
        load_subject(subject)
    except SubjectError as error:
        click.echo(f"Error: {error}", err=True)
        return 3
    if corpus is not None:
        corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        story = Path(folder) / "story"
        command = [sys.executable, "-m", "startup_plan.harness.damage.fuzz", subject, str(story)]
        command += [str(runs), str(seconds), *([str(corpus)] if corpus else [])]
        done = subprocess.run(  # noqa: S603  # this interpreter, with what the user named
            command, check=False, capture_output=True, text=True
        )
        if story.exists():
            click.echo(story.read_text("utf-8"))
            return 1
    if done.returncode:
        click.echo(done.stderr[-3000:], err=True)
        click.echo(f"Error: the fuzzer ended with status {done.returncode}", err=True)
        return 4
    tried = re.search(r"Done (\d+) runs in (\d+) second", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    runs_done, edges = tried[1] if tried else "some", covered[-1] if covered else "?"
    click.echo(f"{runs_done} runs, {edges} edges of {subject} covered, nothing found")
    return 0
