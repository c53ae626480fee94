# SPDX-License-Identifier: Apache-2.0
"""What came of a boot survives the journey between processes and reads the same everywhere."""

from __future__ import annotations

import json

import pytest

from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.outcome import BootResult, ElsewhereError


def _travelled(result: BootResult) -> BootResult:
    return BootResult.from_values(json.loads(json.dumps(result.to_values())))


def test_an_outcome_survives_the_journey() -> None:
    """All that travels arrives with its types; what a process keeps to itself does not."""
    result = BootResult(rank=1, applied=GIB, log=[("info", "a line")], queries=[("memory", 0)])
    result.config_hash, result.legal = ("a", "b"), frozenset({GIB})
    arrived = _travelled(result)

    assert arrived.legal == frozenset()
    result.legal = frozenset()
    assert (arrived, arrived.lines) == (result, ["a line"])


@pytest.mark.parametrize("where", ["apply", ""])
def test_what_was_raised_reads_the_same_after_the_journey(where: str) -> None:
    """An exception travels as words, and its story stays as it was."""
    result = BootResult(utilization=0.5, stage="warm-up", raised=KeyError("x"), where=where)
    arrived = _travelled(result)
    clause = "raised KeyError in apply: 'x'" if where else "raised in 'warm-up': KeyError: 'x'"

    assert isinstance(arrived.raised, ElsewhereError)
    assert (str(arrived), str(result)) == (f"boot of engine at 0.5 {clause}",) * 2


@pytest.mark.parametrize(
    ("parts", "fate"),
    [
        ({"hung": True, "stage": "profile run"}, "waits without end in 'profile run'"),
        ({"refused": "why"}, "was refused by the worker (why)"),
        ({"killed": True, "suggestion": GIB}, "was killed while it saved 1.00 GiB"),
        ({"applied": GIB}, "applied 1.00 GiB"),
        ({"explicit": 0}, "used the explicit 0.00 GiB"),
        ({"measured": GIB}, "measured 1.00 GiB, handed nothing to be saved"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_fate_is_told_in_one_clause(parts: dict[str, object], fate: str) -> None:
    """Whatever ended a boot first is what its story ends with."""
    assert BootResult(**parts).fate == fate  # type: ignore[arg-type]  # as parametrised


def test_a_shortage_is_told_behind_the_figures() -> None:
    """A boot that applied and ran out of memory tells its budget, what was free, and what not."""
    result = BootResult(utilization=0.5, applied=GIB, budget=2 * GIB, free=GIB, shortage="no more")

    assert result.out_of_memory
    assert str(result).endswith(
        "applied 1.00 GiB (budget 2.00 GiB, free 1.00 GiB) and ran out of memory: no more"
    )
