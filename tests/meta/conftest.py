# SPDX-License-Identifier: Apache-2.0
"""Small suites to run the gate on, and a judgement to render."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from startup_plan.cli import gate as cli_gate
from startup_plan.harness.contract.register import Register, Requirement, load_register
from startup_plan.harness.gate.run import GateRequest
from startup_plan.harness.verdict.judgement import (
    Evidence,
    Report,
    SubjectFacts,
    SuiteFacts,
    Terms,
    build_report,
)
from startup_plan.harness.zoo.catalogue import load_catalogue
from startup_plan.harness.zoo.seed import write_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.verdict.record import Record

_CONFIGURATION = """
[tool.pytest.ini_options]
addopts = ["--strict-markers", "--import-mode=importlib"]
"""

_HEAD = """
import pytest
from startup_plan.harness.contract.violation import Violation
requirement = pytest.mark.requirement
"""


class MiniSuite(Protocol):
    """Writes a suite of one file."""

    def __call__(self, source: str) -> Path:
        """Write `source` below the usual imports; give the folder of the suite."""


class Judge(Protocol):
    """Judges made-up records."""

    def __call__(self, *records: Record, **options: Any) -> Report:
        """Build the report of `records` on a register of four requirements."""


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Writes a subject of the zoo, by its slug; gives the path of its file."""
    folder, known = tmp_path_factory.mktemp("zoo"), load_catalogue()
    return lambda slug: str(write_subject(known[slug], folder))


@pytest.fixture
def children() -> Callable[[], set[str]]:
    """Tells which children this process has now, dead ones that nobody waited for included."""

    def look() -> set[str]:
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                stat = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
                found.update([name] if int(stat[1]) == os.getpid() else [])
        return found

    return look


@pytest.fixture
def mini_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MiniSuite:
    """Writes a suite and lets the command line find it."""
    suite = tmp_path / "suite"

    def write(source: str) -> Path:
        tests = suite / "tests" / "property"
        tests.mkdir(parents=True, exist_ok=True)
        (suite / "pyproject.toml").write_text(_CONFIGURATION)
        (tests / "test_mini.py").write_text(_HEAD + source)
        return suite

    monkeypatch.setattr(cli_gate, "find_suite", lambda: suite)
    return write


def _terms(register: Register, options: dict[str, Any]) -> Terms:
    """The terms among `options`, which lose them."""
    named = {
        name: options.pop(name) for name in ("only", "gaps", "required", "base") if name in options
    }
    return Terms(register, **named)


@pytest.fixture
def gate_request(mini_suite: MiniSuite) -> Any:
    """Makes requests to judge the reference by a suite of one file."""

    def make(source: str, **options: Any) -> GateRequest:
        suite = mini_suite(source)
        terms = _terms(load_register(), options)
        return GateRequest(options.pop("subject", "reference"), terms, suite, **options)

    return make


SMALL_REGISTER = Register(
    [
        Requirement("LOG-01", "hygiene", "One line says what became of the plan."),
        Requirement("KEY-01", "unsafe", "The key differs when `compute_hash()` differs."),
        Requirement("KEY-02", "unsafe", "The key differs when the utilization differs."),
        Requirement("SAVE-06", "costly", "What was saved stays saved.", "the model of crashes"),
    ]
)


@pytest.fixture
def judge() -> Judge:
    """Judges made-up records on a register of four requirements."""

    def build(*records: Record, **options: Any) -> Report:
        evidence = options.pop("evidence", None) or Evidence()
        for record in records:
            evidence.catalogue.setdefault(record.nodeid, record.ids)
            evidence.add(record)
        return build_report(
            _terms(SMALL_REGISTER, options),
            evidence,
            subject=SubjectFacts("some/plan.py", "/some/plan.py", "ab" * 32, "1.2"),
            suite=SuiteFacts("0.1.0", "ci"),
            environment={"python": "3.11", **options.pop("environment", {})},
        )

    return build
