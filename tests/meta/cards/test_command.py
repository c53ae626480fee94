# SPDX-License-Identifier: Apache-2.0
"""`pytest -m gpu`: what it says without a card, with a busy one, and what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.cards.crowd_scenarios import ALL
from startup_plan.harness.contract import capabilities

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[3]
STAND_IN: Final = ("-p", "card_stand_in")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a real card with these options."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "gpu", "-p", "no:cacheprovider"),
        *("-c", str(ROOT / "pyproject.toml"), str(ROOT / "tests" / "gpu"), *arguments),
    ]
    paths = [str(ROOT / "src"), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    kept = {name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")}
    kept |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "HYPOTHESIS_PROFILE": "ci"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=kept | environment
    )


@pytest.fixture
def no_card() -> str:
    """Why there is no card here; a machine that has one shows other things."""
    found = capabilities.probe("gpu")
    if found.present:
        pytest.skip(f"there is a card: {found.reason}")
    return found.reason


def test_without_a_card_nothing_runs(no_card: str, tmp_path: Path) -> None:
    """Every test is `not-run` with the probe's reason, in the report as well."""
    file = tmp_path / "report.json"
    done = run("--gpu-report", str(file), "-k", "boundary or graphs")
    reasons = set(json.loads(file.read_text("utf-8"))["not_run"].values())

    assert (done.returncode, f"capability gpu: {no_card}" in done.stdout) == (0, True), done.stdout
    assert reasons == {f"Skipped: capability gpu: {no_card}"}


def test_without_a_card_that_is_required_every_test_fails(no_card: str) -> None:
    """Under `--require gpu` the absence is a failure, and no requirement counts as violated."""
    done = run("--require", "gpu", "-k", "boundary")

    assert done.returncode == 1
    assert f"required capability gpu: {no_card}" in done.stdout
    assert "VIOLATED" not in done.stdout


def test_a_card_that_is_too_busy_is_told_with_figures() -> None:
    """A card on which a scenario has no room is `not-run` with what is free and what is needed."""
    lax = run(*STAND_IN, "-k", "boundary", STAND_IN_BUSY="1")
    strict = run(*STAND_IN, "--require", "gpu", "-k", "boundary", STAND_IN_BUSY="1")
    figures = "has 0.03 GiB of 0.06 GiB free, and the scenario needs 60% of the card"

    assert (lax.returncode, strict.returncode) == (0, 1), strict.stdout
    for done in (lax, strict):
        assert figures in " ".join(done.stdout.split()), done.stdout


def test_every_figure_is_reported(tmp_path: Path) -> None:
    """The report holds every boot with its figures, the table of budgets, and how long it took."""
    file = tmp_path / "report.json"
    done = run(*STAND_IN, "--require", "gpu", "--gpu-report", str(file), "-k", "0.8 or boundary")
    scenarios: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["scenarios"]
    figures = {one["scenario"]: one["figures"] for one in scenarios}
    whats = [figure["what"] for figure in figures["0.8, 0.35, 0.8"]]

    assert done.returncode == 0, done.stdout
    assert [what for what in whats if what.startswith("table")] == [
        *("table 0.8", "table 0.35", "table 0.8")
    ]
    assert figures["the boundary"][-1]["granule"] == os.sysconf("SC_PAGESIZE")
    assert all(one["seconds"] > 0 and one["total"] for one in scenarios)
    assert "table 0.35 budget 0.02 GiB" in done.stdout


def test_a_fault_is_caught_on_a_card_too(seeded: Callable[[str], str]) -> None:
    """The tests of a real card fail by the requirement that a seeded fault names."""
    done = run(*STAND_IN, "--subject", seeded("shortfall_tolerated"), "-k", "boundary")

    assert (done.returncode, "1 of them unsafe (GATE-01)" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize(
    ("gib", "which", "selection"),
    [(8, list(ALL), ()), (141, ["CUDA graphs"], ("-k", "graphs or without_a_gate"))],
)
def test_a_run_on_a_played_cuda_device(
    tmp_path: Path, gib: int, which: list[str], selection: tuple[str, ...]
) -> None:
    """With a played driver and a played torch, the command passes on a small card and a large."""
    file, folder = tmp_path / "report.json", tmp_path / "card"
    folder.mkdir()
    done = run(
        *("--require", "gpu", "--gpu-report", str(file), *selection),
        PYTHONPATH=os.pathsep.join([str(Path(__file__).parent / "played_cuda"), str(ROOT / "src")]),
        PLAYED_CUDA_BYTES=str(gib << 30),
        PLAYED_CUDA_FOLDER=str(folder),
    )
    report = json.loads(file.read_text("utf-8"))
    real = [one for one in report["scenarios"] if one["card"] == "cuda"]
    names = {one["scenario"] for one in real}

    assert (done.returncode, report["failed"]) == (0, {}), done.stdout
    assert names >= {*which, "lowered beside a co-tenant, gate ignored"}
    assert {one["total"] for one in real} == {gib << 30}
