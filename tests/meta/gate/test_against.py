# SPDX-License-Identifier: Apache-2.0
"""`gate --against` and `--write-known-gaps`: bases of every origin, and the files they leave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.forms import check_form

from startup_plan.cli import gate as cli_gate
from startup_plan.cli import main as cli
from startup_plan.harness.contract.known_gaps import load_known_gaps
from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate import releases
from startup_plan.harness.gate.run import GateOutcome, run_gate
from startup_plan.harness.verdict.base import read_base

if TYPE_CHECKING:
    from pathlib import Path

    from tests.meta.conftest import MiniSuite

# What a subject breaks stands in its file.
BY_ITS_TEXT = """
from pathlib import Path

@pytest.mark.parametrize("id_", ["KEY-01", "KEY-02"])
@requirement("KEY-01", "KEY-02")
def test_by_its_text(subject, id_):
    for line in Path(subject.file).read_text().splitlines():
        if line.startswith(f"# {id_} "):
            raise Violation(id_, line.removeprefix(f"# {id_} "))
"""


@pytest.fixture
def subject(tmp_path: Path, seeded: Any) -> Any:
    """Writes a correct subject that the small suite finds to break what its last lines say."""

    def write(name: str, *broken: str) -> str:
        path = tmp_path / name
        with open(seeded("rewrite"), encoding="utf-8") as source:
            path.write_text(source.read() + "".join(f"\n# {line}\n" for line in broken))
        return str(path)

    return write


def gate(*arguments: str) -> int:
    """Run the gate with no workers."""
    return cli.run(["gate", "-n", "0", *arguments])


def rows(path: Path) -> dict[str, str]:
    """Give how each judged requirement of a report compares."""
    report = json.loads(path.read_text())
    check_form(report, "startup-plan/gate/2")
    return {r["id"]: r["against"] for r in report["requirements"] if r["status"] != "not-run"}


def test_a_base_is_judged_in_the_same_run(
    mini_suite: MiniSuite, subject: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A base that is a subject is judged first, with the same options, and the report says so."""
    mini_suite(BY_ITS_TEXT)
    base = subject("base.py", "KEY-01 it hung")
    fork = subject("fork.py", "KEY-01 it hung", "KEY-02 it raised")
    report = tmp_path / "r.json"

    status = gate(fork, "--against", base, "--json", str(report))
    printed = capsys.readouterr().out

    assert (status, rows(report)) == (1, {"KEY-01": "inherited", "KEY-02": "new"})
    assert (
        json.loads(report.read_text())["against"]["judged_in_this_run"],
        "base.py" in printed,
    ) == (
        True,
        True,
    )


def test_a_report_is_a_base(mini_suite: MiniSuite, subject: Any, tmp_path: Path) -> None:
    """A report that was written before is a base; the fork that breaks no more passes."""
    mini_suite(BY_ITS_TEXT)
    base, report = tmp_path / "base.json", tmp_path / "r.json"
    gate(subject("base.py", "KEY-01 it hung", "KEY-02 it hung"), "--json", str(base))

    status = gate(
        subject("fork.py", "KEY-01 it hung"), "--against", str(base), "--json", str(report)
    )

    assert (status, rows(report)) == (0, {"KEY-01": "inherited", "KEY-02": "fixed"})


def test_other_evidence_fails(mini_suite: MiniSuite, subject: Any, tmp_path: Path) -> None:
    """A fork that breaks an old sentence in a new way does not hide behind the old one."""
    mini_suite(BY_ITS_TEXT)
    base = subject("base.py", "KEY-01 the name is foreseen")
    fork, report = subject("fork.py", "KEY-01 it wrote through a link"), tmp_path / "r.json"

    assert gate(fork, "--against", base, "--json", str(report)) == 1
    assert rows(report)["KEY-01"] == "other-evidence"


@pytest.mark.parametrize("wrong", ["subject", "base"])
def test_neither_side_waits_for_the_other_to_be_refused(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    """A subject or a base that cannot be loaded is status 3 before anything is judged."""
    mini_suite("raise RuntimeError('the suite was run')")
    missing = str(tmp_path / "missing.py")

    status = gate(
        *((missing, "--against", "reference") if wrong == "subject" else ("--against", missing))
    )
    error = capsys.readouterr().err

    assert (status, "missing.py cannot be read" in error, "was run" in error) == (3, True, False)


def test_a_base_that_was_cut_short_compares_nothing(
    mini_suite: MiniSuite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the base is judged ends the command, with a sentence that says so."""
    mini_suite(BY_ITS_TEXT)

    def cut(request: Any, progress: Any) -> GateOutcome:
        outcome = run_gate(request, progress)
        object.__setattr__(outcome.report, "partial", "interrupted by SIGINT")
        return GateOutcome(outcome.report, 130)

    monkeypatch.setattr(cli_gate, "run_gate", cut)

    assert (gate("reference", "--against", "reference"), capsys.readouterr().out) == (
        130,
        "interrupted by SIGINT, while the base reference was judged; reference was not judged\n",
    )


def test_every_release_that_ships_is_whole() -> None:
    """Each report that comes with the package can be compared with, and lists its known gaps."""
    register = load_register()
    for name in releases.names():
        report, gaps = releases.report_of(name), releases.gaps_of(name)
        assert report is not None
        assert gaps is not None
        base = read_base(report, name)
        broken = {id_ for id_, row in base.side.rows.items() if row.status == "violated"}

        assert (set(load_known_gaps(gaps, register)), base.partial) == (broken, None)
        assert all(base.side.rows[id_].evidence for id_ in broken)
    assert {"vllm-0.26.0", "vllm-0.27.1", "vllm-0.32.0", "vllm-0.33.0"} <= set(releases.names())


def test_releases_that_are_judged_alike_share_a_report() -> None:
    """A release with the module and the worker of another has its report and its known gaps."""
    same, other = (releases.report_of(f"vllm-{name}") for name in ("0.30.0", "0.26.0"))

    assert (same, releases.gaps_of("vllm-0.30.0")) == (
        releases.report_of("vllm-0.33.0"),
        releases.gaps_of("vllm-0.33.0"),
    )
    assert other != same


def test_gaps_are_written_and_brought_up_to_date(
    mini_suite: MiniSuite, subject: Any, tmp_path: Path
) -> None:
    """What is violated becomes a list; closed gaps go, reasons, comments and the rest stay."""
    mini_suite(BY_ITS_TEXT)
    path = tmp_path / "gaps"

    first = gate(subject("a.py", "KEY-01 it hung"), "--write-known-gaps", str(path))
    written = path.read_text()
    path.write_text("# ours\nKEY-01  a reason\nLOAD-04  not judged here\n")
    second = gate(subject("b.py", "KEY-02 it raised"), "--write-known-gaps", str(path))

    assert (first, written.splitlines()[-1]) == (1, "KEY-01  found by the gate: it hung")
    assert (second, path.read_text().splitlines()) == (
        1,
        ["# ours", "LOAD-04  not judged here", "KEY-02  found by the gate: it raised"],
    )


def test_written_gaps_are_accepted(
    mini_suite: MiniSuite, subject: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the list that was written the same subject passes, and its gaps are one folded line."""
    mini_suite(BY_ITS_TEXT)
    path, broken = tmp_path / "gaps", subject("a.py", "KEY-01 it hung")
    gate(broken, "--write-known-gaps", str(path))
    capsys.readouterr()

    status = gate(broken, "--known-gaps", str(path))
    folded = capsys.readouterr().out
    gate(broken, "--known-gaps", str(path), "-v")
    full = capsys.readouterr().out

    assert (status, "  known gap  KEY-01\n" in folded, "it hung" in folded, "it hung" in full) == (
        0,
        True,
        False,
        True,
    )
