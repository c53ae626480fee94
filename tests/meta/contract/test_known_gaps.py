# SPDX-License-Identifier: Apache-2.0
"""Known gaps: what a file may say, and that a closed gap is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.cli import main as cli
from startup_plan.harness.contract.known_gaps import KnownGapsError, describe_stale, load_known_gaps
from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.run import run_gate
from startup_plan.harness.verdict.record import Record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.meta.conftest import Judge, MiniSuite

BROKEN = """
@requirement("KEY-02")
def test_broken():
    raise Violation("KEY-02", "boot at 0.8 saved; boot at 0.3 applied it")
"""

SOUND = """
@requirement("KEY-01")
def test_sound():
    pass
"""


def test_file_is_read_with_and_without_colons(tmp_path: Path) -> None:
    """An id is followed by its reason; comments and empty lines are skipped."""
    path = tmp_path / "gaps"
    path.write_text("# ours\n\nKEY-02  comes next\n  LOAD-04: no FIFOs\nLOAD-05 :\tlater\n")

    assert load_known_gaps(path, load_register()) == {
        "KEY-02": "comes next",
        "LOAD-04": "no FIFOs",
        "LOAD-05": "later",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("KEY-2 soon", "line 1: unknown requirement id 'KEY-2': the nearest are .*KEY-02"),
        ("# one\nKEY-02", "line 2: say after KEY-02 why the gap is accepted"),
        ("KEY-02:", "line 1: say after KEY-02 why"),
        ("KEY-02 a\nKEY-02 b", "line 2: KEY-02 is listed twice"),
        ("\xff", "it is not UTF-8"),
        ("#" * (1 << 20) + "\n", "larger than 1 MiB"),
        (": nothing", "unknown requirement id ': nothing'"),
    ],
)
def test_malformed_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    """What is wrong with a known-gaps file is said in a sentence that names the line."""
    path = tmp_path / "gaps"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(KnownGapsError, match=complaint):
        load_known_gaps(path, load_register())


@pytest.mark.parametrize("name", ["missing", "."])
def test_unreadable_file_is_refused(tmp_path: Path, name: str) -> None:
    """A file that is not there and a folder are refused with the remedy."""
    with pytest.raises(KnownGapsError, match=r"cannot be read .*one 'ID reason' a line"):
        load_known_gaps(tmp_path / name, load_register())


def test_stale_gaps_are_described() -> None:
    """One closed gap and several are both described with the remedy."""
    assert (describe_stale(["KEY-02"], "gaps"), describe_stale(["KEY-02", "KEY-03"], "gaps")) == (
        "KEY-02 is listed in gaps as a known gap and now holds: remove its line",
        "KEY-02, KEY-03 are listed in gaps as known gaps and now hold: remove their lines",
    )


def test_known_gap_passes_and_keeps_its_counterexample(judge: Judge) -> None:
    """A violation that is a known gap is no violation, and is still shown with its reason."""
    broken = Record("t", ("KEY-02",), "failed", violated=("KEY-02",), story="a story")
    report = judge(broken, gaps={"KEY-02": "comes next"})
    (result,) = report.having("known-gap")

    assert (result.requirement.id, result.counterexample, report.exit_status, report.stale) == (
        "KEY-02",
        "a story\nknown gap: comes next",
        0,
        (),
    )


def test_gap_that_holds_is_an_error(judge: Judge) -> None:
    """A known gap that holds makes the run fail, so that the list cannot rot."""
    report = judge(Record("t", ("KEY-02",), "passed"), gaps={"KEY-02": "comes next"})

    assert (report.stale, report.exit_status) == (("KEY-02",), 2)


def test_gap_that_was_not_judged_is_no_error(judge: Judge) -> None:
    """A known gap about which nothing is known is left alone."""
    report = judge(Record("t", ("KEY-01",), "passed"), gaps={"KEY-02": "comes next"})

    assert (report.stale, report.exit_status) == ((), 0)


def test_violation_outranks_a_stale_gap(judge: Judge) -> None:
    """Where something is violated the exit status says so, stale gaps or not."""
    report = judge(
        Record("a", ("KEY-01",), "failed", violated=("KEY-01",), story="a story"),
        Record("b", ("KEY-02",), "passed"),
        gaps={"KEY-02": "comes next"},
    )

    assert (report.stale, report.exit_status) == (("KEY-02",), 1)


def test_gate_accepts_a_known_gap(gate_request: Any) -> None:
    """The gate passes when all that is broken is listed."""
    outcome = run_gate(gate_request(BROKEN + SOUND, gaps={"KEY-02": "comes next"}))

    assert (outcome.status, outcome.report.count()["known-gap"]) == (0, 1)


def test_gate_refuses_a_stale_list(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line ends with status 2 and names the line to remove."""
    mini_suite(SOUND)
    gaps = tmp_path / "gaps"
    gaps.write_text("KEY-01 was broken\n")

    status = cli.run(["gate", "-n", "0", "--known-gaps", str(gaps)])

    assert (status, "KEY-01 is listed in" in capsys.readouterr().err) == (2, True)


def test_gate_refuses_an_unreadable_list(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A known-gaps file that is not there ends the command with status 2 before any run."""
    mini_suite("raise RuntimeError('the suite was run')")

    status = cli.run(["gate", "--known-gaps", str(tmp_path / "missing")])

    assert (status, "cannot be read" in capsys.readouterr().err) == (2, True)
