# SPDX-License-Identifier: Apache-2.0
"""The drop-in in real processes with the vLLM that is installed, as it is and altered in memory."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.session.once import once

if TYPE_CHECKING:
    from collections.abc import Mapping

    Outcomes = dict[str, dict[str, Any]]

pytestmark = pytest.mark.vllm

_CHILD: Final = Path(__file__).parent / "plugin_child.py"
_PLAN: Final = "vllm.v1.worker.startup_plan"
_WORKER: Final = "vllm.v1.worker.gpu_worker"
_OURS: Final = ["startup_plan.reference.worker"] * 3
_THEIRS: Final = [_PLAN] * 3

_REFUSALS: Final = {
    "no plan module": f"{_PLAN} cannot be imported",
    "no save function": f"{_PLAN} has no function maybe_save_startup_plan",
    "another signature": f"{_PLAN}.maybe_apply_startup_plan takes (the_worker",
    "a default": f"{_PLAN}.compute_plan_fingerprint takes (vllm_config",
    "a worker that does not save": "it calls maybe_apply_startup_plan 1 times and maybe_save",
    "a worker that does not ask": "it calls maybe_apply_startup_plan 0 times and maybe_save",
    "a worker without source": f"{_WORKER} has no source",
    "a worker replaced by others": "has been replaced by somebody else",
    "a stubborn module": "RuntimeError: ask stays",
}
"""Case: what the error line says."""


def run_cases(first: str, *cases: str, **variables: str) -> Outcomes:
    """What each case came to, in a process that imported `first` before anything else."""
    environment: Mapping[str, str] = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "STARTUP_PLAN_"))
    }
    done = subprocess.run(
        [sys.executable, str(_CHILD), first, *cases],
        check=False,
        capture_output=True,
        text=True,
        env={**environment, "HF_HUB_OFFLINE": "1", **variables},
        timeout=120,
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {facts.pop("case"): facts for facts in told}
    assert set(found) == set(cases), done.stderr[-4000:]
    return found


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Every case in a process with the switch on that had not imported the worker."""
    cases = ("twice", "spawned", "unset", "0", "not allowed", "true", "allowed", *_REFUSALS)
    on = {"STARTUP_PLAN_PLUGIN": "1", "VLLM_ENABLE_STARTUP_PLAN": "1"}
    made: Outcomes = once("plugin-cases", lambda: run_cases(_PLAN, *cases, **on), tmp_path_factory)
    return made


def test_entry_point_is_installed() -> None:
    """VLLM finds the drop-in among its general plugins."""
    found = importlib.metadata.entry_points(group="vllm.general_plugins", name="startup_plan")

    assert [point.value for point in found] == ["startup_plan.reference.drop_in:install"]


def test_worker_imported_later_gets_ours(outcomes: Outcomes) -> None:
    """Whoever bound vLLM's functions before, or imports them later, has ours; once it says so."""
    version = importlib.metadata.version("startup-plan")
    told = outcomes["twice"]
    (line,) = told.pop("said")

    assert told == {
        "worker_was_loaded": False,
        "early": _OURS[0],
        "late": _OURS[0],
        "worker": _OURS[1:],
    }
    assert line.startswith(f"INFO startup-plan {version}: in use instead of")


def test_worker_imported_before_gets_ours() -> None:
    """A worker that was imported before the plugins were loaded has ours."""
    told = run_cases(_WORKER, "twice", STARTUP_PLAN_PLUGIN="1")["twice"]

    assert (told["worker_was_loaded"], told["worker"], told["early"]) == (True, _OURS[1:], _OURS[0])
    assert "it does nothing without VLLM_ENABLE_STARTUP_PLAN=1" in told["said"][0]


def test_spawned_process_gets_ours(outcomes: Outcomes) -> None:
    """A process that an engine spawns has ours once it has loaded its plugins."""
    assert outcomes["spawned"]["spawned"] == _OURS


@pytest.mark.parametrize("case", ["unset", "0", "not allowed", "true"])
def test_switched_off_nothing_changes(outcomes: Outcomes, case: str) -> None:
    """Without the switch, or without leave from VLLM_PLUGINS, vLLM has its own functions."""
    told = outcomes[case]
    complaints = [line for line in told["said"] if "only 1 and 0 have a meaning" in line]

    assert (told["after"], told["early"]) == (_THEIRS, _PLAN)
    assert told["said"] == complaints
    assert len(complaints) == (case == "true")


def test_allowed_by_name(outcomes: Outcomes) -> None:
    """A VLLM_PLUGINS that names the drop-in lets it in."""
    assert outcomes["allowed"]["after"] == _OURS


@pytest.mark.parametrize("case", _REFUSALS)
def test_unknown_vllm_is_refused_whole(outcomes: Outcomes, case: str) -> None:
    """On a vLLM that it does not know, it says why in an error line and changes nothing."""
    told = outcomes[case]
    (line,) = told["said"]
    # A function that is not there stays absent; whatever is there is vLLM's.
    kept = {*told["after"], told.get("early", _PLAN)} - {"None"}

    assert line.startswith("ERROR ")
    assert (_REFUSALS[case] in line, "vLLM keeps its own startup plan" in line) == (True, True)
    assert kept == {_PLAN}
