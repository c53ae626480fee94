# SPDX-License-Identifier: Apache-2.0
"""What the failures of a test say about its sentence, and what they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.idle_plan import IDLE_PLAN

from startup_plan.harness.gate.run import run_gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.gate.run import GateRequest

_TEST: Final = """
from startup_plan.harness.contract.violation import NeverReachedError, UndecidedError, reached

@requirement("KEY-01")
def test_one():
    {}
"""

_OURS: Final = {
    "a bare assert": "assert 0 > 0",
    "an error of the harness": "dict()['rank']",
    "a file of the harness": "open('/nowhere/at/all')",
    "a word of undecided": "raise UndecidedError('the machine was busy')",
}
"""What a test may raise that is no word about the subject -> how."""


def _verdict(request: Callable[..., GateRequest], body: str) -> tuple[str, str, int]:
    outcome = run_gate(request(_TEST.format(body)))
    report = outcome.report
    (result,) = [result for result in report.results if result.requirement.id == "KEY-01"]
    return result.status, result.counterexample or "", outcome.status


@pytest.mark.parametrize("what", _OURS)
def test_what_is_no_violation_decides_nothing(gate_request: Any, what: str) -> None:
    """A test that ends by anything but a `Violation` blames nobody: the run cannot be judged."""
    status, words, exit_status = _verdict(gate_request, _OURS[what])

    assert (status, words[:18], exit_status) == ("not-run", "cannot be judged: ", 4)


def test_a_violation_is_told(gate_request: Any) -> None:
    """A `Violation` is the one thing that a subject is blamed for."""
    verdict = _verdict(gate_request, "raise Violation('KEY-01', 'two hashes, one key')")

    assert verdict == ("violated", "two hashes, one key", 1)


_HANGS: Final = """
from startup_plan.harness.session.watchdog import HungError

@requirement("KEY-01"{})
def test_that_hangs():
    raise HungError("the subject had not come back after 60 s")
"""


@pytest.mark.parametrize(
    ("others", "verdict"), [("", ("violated", 1)), (', "KEY-02"', ("not-run", 4))]
)
def test_a_hang_is_held_against_the_one_sentence_of_its_test(
    gate_request: Any, others: str, verdict: tuple[str, int]
) -> None:
    """A call that does not come back says which test, not which of several sentences, it broke."""
    outcome = run_gate(gate_request(_HANGS.format(others)))
    (result,) = [row for row in outcome.report.results if row.requirement.id == "KEY-01"]

    assert ((result.status, outcome.status), "not come back" in (result.counterexample or "")) == (
        verdict,
        True,
    )


_BOTH: Final = """
@requirement("BOOT-01")
def test_a_plan_is_applied():
    raise Violation("BOOT-01", "the second boot measured again")

@requirement("LOAD-08")
def test_a_plan_can_be_moved():
    raise Violation("LOAD-08", "the plan was moved; the next boot measured again")
"""


def test_who_applies_nothing_is_blamed_for_that_alone(gate_request: Any, tmp_path: Path) -> None:
    """Where no plan is ever applied, that is the one violation; the rest was never reached."""
    subject = tmp_path / "idle.py"
    subject.write_text(IDLE_PLAN)
    report = run_gate(gate_request(_BOTH, subject=str(subject))).report
    told = {row.requirement.id: (row.status, row.counterexample) for row in report.results}

    assert told["BOOT-01"] == ("violated", "the second boot measured again")
    assert told["LOAD-08"][0] == "not-run"
    assert (told["LOAD-08"][1] or "").startswith("never reached: a plan that is applied")


def test_what_was_not_reached_does_not_hold(gate_request: Any) -> None:
    """A test that did not come to its point leaves its requirement open, and says what it lacks."""
    verdict = _verdict(gate_request, "reached([], 'an operation after the rename')")

    assert verdict == ("not-run", "never reached: an operation after the rename", 0)


def test_what_was_reached_holds(gate_request: Any) -> None:
    """A test that came to its point and ended holds."""
    assert _verdict(gate_request, "reached([1], 'nothing')") == ("holds", "", 0)


def test_an_example_that_does_not_fail_again_decides_nothing(gate_request: Any) -> None:
    """Hypothesis' own complaint, that a violation did not come out twice, is no evidence."""
    body = """
    from hypothesis import given, strategies as st
    seen = []

    @given(st.integers())
    def judge(number):
        seen.append(number)
        if len(seen) == 2:
            raise Violation('KEY-01', 'once')

    judge()
"""
    status, words, exit_status = _verdict(gate_request, body)

    assert (status, words[:18], exit_status) == ("not-run", "cannot be judged: ", 4)
