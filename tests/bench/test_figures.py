# SPDX-License-Identifier: Apache-2.0
"""Medians, and gains that compare like with like."""

from __future__ import annotations

from startup_plan.bench.results.figures import figures_of
from startup_plan.bench.results.record import Check, Run
from startup_plan.bench.server.stages import StartupStage

TIMES = {"uncached": (30.0, 40.0), "cache-hit": (20.0, 24.0), "plan-hit": (18.0, 21.0)}


def _run(phase: str, repeat: int, answered: float | None) -> Run:
    run = Run(phase, repeat, f"runs/{repeat}-{phase}", "caches/1", {}, "2026-01-01T00:00:00+00:00")
    run.answered = answered
    run.healthy = None if answered is None else answered - 1
    run.stages = [StartupStage("compile", 5.0 * repeat, "")]
    return run


def _runs() -> list[Run]:
    return [
        _run(phase, repeat, times[repeat - 1])
        for repeat in (1, 2)
        for phase, times in TIMES.items()
    ]


def test_medians_come_with_their_spread() -> None:
    """Each phase has median, least and most, of the whole and of its stages."""
    phase = figures_of(_runs(), [])["phases"]["uncached"]

    assert (phase["answered"], phase["stages"]["compile"]["median"]) == (
        {"median": 35.0, "least": 30.0, "most": 40.0, "values": [30.0, 40.0]},
        7.5,
    )


def test_the_plan_is_compared_with_a_warm_compile_cache_only() -> None:
    """What the compile cache saves is never counted as a gain of the plan."""
    gains = figures_of(_runs(), [])["gains"]

    assert (gains["startup plan"]["seconds"]["values"], gains["startup plan"]["of"]) == (
        [2.0, 3.0],
        "plan-hit against cache-hit, until the first answer",
    )
    assert gains["compile cache"]["seconds"]["values"] == [10.0, 16.0]


def test_there_is_no_gain_without_the_reuse() -> None:
    """If the reuse did not happen there is no figure, and the reason instead."""
    failed = [Check("plan-applied", "plan-hit", 2, "failed", "")]
    gains = figures_of(_runs(), failed)["gains"]

    assert (gains["startup plan"]["seconds"], gains["startup plan"]["reason"]) == (
        None,
        "plan-applied failed in plan-hit of round 2",
    )
    assert gains["compile cache"]["reason"] is None


def test_there_is_no_gain_between_unequal_compile_caches() -> None:
    """If plan-hit and cache-hit reused different things, their difference is not the plan's."""
    failed = [Check("equal-compile", "plan-hit", 1, "failed", "")]

    assert figures_of(_runs(), failed)["gains"]["startup plan"]["seconds"] is None


def test_there_is_no_gain_on_a_cold_compile_cache() -> None:
    """If the artifacts were not loaded, what is left is a difference between two compilations."""
    failed = [Check("artifacts-loaded", "cache-hit", 1, "failed", "")]
    gains = figures_of(_runs(), failed)["gains"]

    assert (gains["startup plan"]["seconds"], gains["compile cache"]["seconds"]) == (None, None)


def test_a_server_that_did_not_answer_is_no_figure() -> None:
    """Only servers that answered count, and how many did is said."""
    runs = [_run("cache-hit", 1, 20.0), _run("plan-hit", 1, None)]
    figures = figures_of(runs, [])

    assert (figures["phases"]["plan-hit"]["answered_runs"], figures["gains"]) == (
        0,
        {
            "compile cache": {
                "of": "cache-hit against uncached, until the first answer",
                "seconds": None,
                "reason": "uncached and cache-hit were not both answered",
            },
            "startup plan": {
                "of": "plan-hit against cache-hit, until the first answer",
                "seconds": None,
                "reason": "cache-hit and plan-hit were not both answered",
            },
        },
    )
