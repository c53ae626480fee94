# SPDX-License-Identifier: Apache-2.0
"""The benchmark on the real thing: vLLM on CPU, the plan phases with the drop-in.

They take minutes, so one benchmark serves all tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from startup_plan.harness.real_vllm import bench_inputs
from startup_plan.harness.session.once import once

pytestmark = pytest.mark.vllm

_WORKERS: Final = Path(__file__).parents[1] / "vllm"
_LONGEST_SECONDS: Final = 900


def _benchmark(root: Path) -> dict[str, Any]:
    """Measure, then diagnose; what the two printed and the results, as JSON has them."""
    done = _command(*bench_inputs.prepare(root, _WORKERS))
    return {
        "status": done.returncode,
        "printed": done.stdout + done.stderr,
        "results": json.loads((root / "out" / "results.json").read_text("utf-8")),
        "diagnosis": _command("bench", "diagnose", str(root / "out")).stdout,
    }


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "startup_plan", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One benchmark of a tiny model, shared by all workers."""
    make = partial(_benchmark, tmp_path_factory.mktemp("bench"))
    found: dict[str, Any] = once("bench-real", make, tmp_path_factory)
    return found


def _checks(measured: dict[str, Any], verdict: str) -> dict[tuple[str, str | None], str]:
    return {
        (check["name"], check["phase"]): check["evidence"]
        for check in measured["results"]["checks"]
        if check["verdict"] == verdict
    }


def _runs(measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {run["phase"]: run for run in measured["results"]["runs"]}


def test_every_phase_was_healthy_and_answered(measured: dict[str, Any]) -> None:
    """Five servers were launched, answered both requests, and left nothing behind."""
    passed = _checks(measured, "passed")
    wanted = ("health", "answers", "not-cut-short", "no-process-left", "port-free-after")

    assert [
        pair for pair in ((w, p) for p in bench_inputs.PHASES for w in wanted) if pair not in passed
    ] == [], measured["printed"]


def test_a_reload_that_fails_is_a_failed_check_with_its_reason(measured: dict[str, Any]) -> None:
    """Where the compiled artifacts cannot be loaded the check fails and says why, and no other."""
    failed = _checks(measured, "failed")
    version_breaks = ("artifacts-loaded", "cache-hit") in failed

    assert (set(failed) <= {("artifacts-loaded", "cache-hit")}, measured["status"]) == (
        True,
        int(version_breaks),
    )
    if version_breaks:
        assert "finalize_loading" in failed["artifacts-loaded", "cache-hit"]
        assert "finalize_loading" in measured["diagnosis"]


def test_the_plan_was_saved_and_applied(measured: dict[str, Any]) -> None:
    """The drop-in's lines are read: one plan saved, then applied, the KV cache equal in both."""
    passed = _checks(measured, "passed")
    wanted = [
        ("plan-saved", "plan-fill"),
        ("plan-applied", "plan-hit"),
        ("kv-size-equal", "plan-hit"),
    ]

    assert [pair for pair in wanted if pair not in passed] == []


def test_tokens_are_compared(measured: dict[str, Any]) -> None:
    """Answers of all five servers are equal, and there are token ids in them to compare."""
    runs = _runs(measured).values()
    shortest = min(
        len(answer["choices"][0]["token_ids"]) for run in runs for answer in run["answers"]
    )

    assert ("identical-answers", None) in _checks(measured, "passed")
    assert shortest > bench_inputs.TOKENS


def test_stages_come_from_the_log(measured: dict[str, Any]) -> None:
    """Each stage names the lines it was read from, and its seconds fit into the boot."""
    for phase, run in _runs(measured).items():
        stages = {stage["name"]: stage for stage in run["stages"]}
        total = sum(stage["seconds"] for stage in stages.values())

        assert ("weights" in stages, total <= run["answered"]) == (True, True), phase
        assert all("line" in s["source"] for n, s in stages.items() if n in {"weights", "compile"})


def test_a_gain_is_told_only_on_equal_caches(measured: dict[str, Any]) -> None:
    """The plan's gain has a figure where the compile cache was warm, otherwise a reason."""
    gain = measured["results"]["figures"]["gains"]["startup plan"]
    warm = ("artifacts-loaded", "cache-hit") in _checks(measured, "passed")

    assert ((gain["seconds"] is not None), bool(gain["reason"])) == (warm, not warm)
