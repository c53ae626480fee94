# SPDX-License-Identifier: Apache-2.0
"""What README says is so: its commands exist, its figures are those of the committed reports."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from startup_plan.cli import main as cli
from startup_plan.harness.contract.register import load_register

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text("utf-8")


def commands() -> Iterator[str]:
    """Every `startup-plan` command line that README shows."""
    for line in README.splitlines():
        if line.startswith("    "):
            for part in line.split("#")[0].split("&&"):
                if part.strip().startswith("startup-plan"):
                    yield part.strip()


def test_the_quoted_figures_are_the_committed_ones() -> None:
    """README and the pages beside the reports are what `benchmarks/figures.py render` makes."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "figures.py"), "check"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_is_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command line of README names a subcommand that answers to --help."""
    words = shlex.split(command)

    assert cli.run([words[1], "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_the_counted_sentences_are_as_many_as_it_says() -> None:
    """The number of requirements in README is that of the register."""
    assert f"of {sum(1 for _ in load_register())} sentences" in README
