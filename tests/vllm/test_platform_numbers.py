# SPDX-License-Identifier: Apache-2.0
"""vLLM's CUDA platform and the stub of it count devices alike, and fail alike."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from startup_plan.harness.real_vllm.platform_answers import answers
from startup_plan.harness.stubs.numbering import uuid_of
from startup_plan.harness.stubs.platform import StubPlatform
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate
from startup_plan.harness.stubs.units import GIB
from startup_plan.support.environment import clean_environment

pytestmark = pytest.mark.vllm

_CHILD: Final = "startup_plan.harness.real_vllm.platform_answers"
_CARDS: Final = (
    ("NVIDIA A100", 40 * GIB, (8, 0)),
    ("NVIDIA H100", 80 * GIB, (9, 0)),
    ("NVIDIA B200", 160 * GIB, (10, 0)),
)
_NUMBERS: Final = (0, 1, 2, 3, -1)
_DEVICES: Final = [Device(*card) for card in _CARDS]
_BY_UUID: Final = f"{uuid_of(_DEVICES, 2)},{uuid_of(_DEVICES, 0)}"
_CASES: Final[dict[str, tuple[str, list[int] | None]]] = {
    "as they are": ("", None),
    "visible 1,0": ("1,0", None),
    "visible 2": ("2", None),
    "visible by UUID": (_BY_UUID, None),
    "assigned 1,0": ("", [1, 0]),
    "assigned 2": ("", [2]),
    "assigned 2,1 of 1,2": ("1,2", [2, 1]),
    "assigned what is not visible": ("1", [0]),
    "visible by a name that no card has": ("GPU-none", None),
}


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """What vLLM answers in each case."""
    cards = [(*card, uuid_of(_DEVICES, index)) for index, card in enumerate(_CARDS)]
    host = json.dumps([cards, _NUMBERS, list(_CASES.values())])
    done = subprocess.run(  # this interpreter, with a module of ours
        [sys.executable, "-m", _CHILD, host],
        check=False,
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return dict(zip(_CASES, found, strict=True))


@pytest.mark.parametrize("name", list(_CASES))
def test_the_stub_counts_as_vllm_does(
    monkeypatch: pytest.MonkeyPatch, real: dict[str, Any], name: str
) -> None:
    """Each query of each number has the answer, or raises the error, that vLLM's own code has."""
    control, assigned = _CASES[name]
    simulation = Simulation(_DEVICES, Runtime())
    simulation.assigned = assigned
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", control)
    activate(simulation)
    try:
        stub = json.loads(json.dumps(answers(StubPlatform(), _NUMBERS)))
    finally:
        activate(None)

    assert stub == real[name]
