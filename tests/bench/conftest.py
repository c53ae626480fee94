# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a scripted server, and folders as a benchmark leaves them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.forms import check_form

from startup_plan.bench.server.logs import Log
from startup_plan.cli import main as cli
from startup_plan.support.ports import free_port

SERVER = Path(__file__).with_name("scripted_server.py")

TEXT = {"prompt": "say it", "max_tokens": 8, "temperature": 0}
CODE = {"messages": [{"role": "user", "content": "code"}], "temperature": 0}
TOOL = {"messages": [{"role": "user", "content": "?"}], "tools": [{}], "temperature": 0}


def server_command(port: int, *behaviours: str) -> list[str]:
    """Give the command of a scripted server; without site packages it starts quickly."""
    return [sys.executable, "-I", "-S", str(SERVER), "--port", str(port), *behaviours]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a benchmark ended.

    Args:
        status: the exit status.
        out: what was printed.
        err: what was told.
        folder: the output folder.
    """

    status: int
    out: str
    err: str
    folder: Path

    @property
    def results(self) -> dict[str, Any]:
        """Read `results.json`, which always has its published form."""
        document: dict[str, Any] = json.loads((self.folder / "results.json").read_bytes())
        check_form(document, "startup-plan/bench/1")
        return document

    @property
    def failed(self) -> dict[tuple[str, str | None], str]:
        """Give the evidence of each failed check, by name and phase."""
        return {
            (check["name"], check["phase"]): check["evidence"]
            for check in self.results["checks"]
            if check["verdict"] == "failed"
        }

    @property
    def verdicts(self) -> dict[str, set[str]]:
        """Give the verdicts on each check."""
        found: dict[str, set[str]] = {}
        for check in self.results["checks"]:
            found.setdefault(check["name"], set()).add(check["verdict"])
        return found


class Measure(Protocol):
    """Benchmarks a scripted server through the command line."""

    def __call__(self, *behaviours: str, phases: str, options: tuple[str, ...] = ()) -> Outcome:
        """Do it in these phases."""


@pytest.fixture
def port() -> int:
    """A port that nobody listens on."""
    return free_port()


@pytest.fixture
def requests(tmp_path: Path) -> list[str]:
    """Options for three requests: text, code, and a call of a tool."""
    options = []
    for name, body in (("text", TEXT), ("code", CODE), ("tool", TOOL)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(body))
        options += ["--request", str(path)]
    return options


@pytest.fixture
def measure(
    tmp_path: Path, port: int, requests: list[str], capsys: pytest.CaptureFixture[str]
) -> Measure:
    """Benchmarks a scripted server through the command line."""
    folder = tmp_path / "out"

    def run(*behaviours: str, phases: str, options: tuple[str, ...] = ()) -> Outcome:
        arguments = ["bench", "--output-dir", str(folder), "--port", str(port), *requests]
        # A busy machine must not turn a slow end into a process that was left.
        arguments += ["--phases", phases, "--grace", "20", *options, "--"]
        status = cli.run([*arguments, *server_command(port, *behaviours)])
        printed = capsys.readouterr()
        return Outcome(status, printed.out, printed.err, folder)

    return run


def log_of(*lines: tuple[float | None, str]) -> Log:
    """Read lines that came at these seconds."""
    log = Log()
    for at, line in lines:
        log.feed(f"{line}\n".encode(), at)
    return log


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even a dead one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True
