# SPDX-License-Identifier: Apache-2.0
"""The drop-in where there is no vLLM: off by default, cheap to import, never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

_INSTALL: Final = """
import sys
{before}
from startup_plan.reference.drop_in import install
install()
print(*sorted({{"torch", "vllm"}} & set(sys.modules)))
"""
_WITHOUT_VLLM: Final = "sys.modules['vllm'] = None"


def _run(before: str = "", switch: str | None = None) -> tuple[str, str]:
    """What `install` left among the modules, and what it said, in a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "STARTUP_PLAN_PLUGIN"}
    if switch is not None:
        environment["STARTUP_PLAN_PLUGIN"] = switch
    done = subprocess.run(
        [sys.executable, "-c", _INSTALL.format(before=before)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.parametrize("switch", [None, "0"])
def test_off_by_default(switch: str | None) -> None:
    """Without the switch the drop-in imports neither torch nor vLLM and says nothing."""
    assert _run(switch=switch) == ("", "")


@pytest.mark.parametrize("switch", ["", "true", "2", " 1", "01"])
def test_other_values_are_no_switch(switch: str) -> None:
    """Any value but 1 and 0 leaves the drop-in off, and says so in an error line."""
    _, said = _run(_WITHOUT_VLLM, switch)

    assert f"STARTUP_PLAN_PLUGIN is {switch!r}, and only 1 and 0 have a meaning" in said
    assert len(said.splitlines()) == 1


def test_without_vllm_nothing_is_raised() -> None:
    """Switched on where vLLM cannot be imported, it says so in one line and returns."""
    _, said = _run(_WITHOUT_VLLM, "1")

    assert "not in use, vLLM keeps its own startup plan" in said
    assert ("cannot be imported" in said, len(said.splitlines())) == (True, 1)


def test_entry_point_is_declared() -> None:
    """The project declares the drop-in where vLLM looks for plugins."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    declared = project["project"]["entry-points"]["vllm.general_plugins"]

    assert declared == {"startup_plan": "startup_plan.reference.drop_in:install"}
