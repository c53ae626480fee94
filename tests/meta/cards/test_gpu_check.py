# SPDX-License-Identifier: Apache-2.0
"""`scripts/gpu_check.sh`: it fills in what a bare machine lacks, runs, and leaves the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from startup_plan.harness.contract import capabilities

ROOT = Path(__file__).parents[3]


def test_a_machine_without_a_card_fails_with_a_report(tmp_path: Path) -> None:
    """What is missing is unpacked, what is there is left alone, and the reason is in the report."""
    if capabilities.probe("gpu").present:
        pytest.skip("there is a card, and the script would use it for minutes")
    wheels, file = tmp_path / "wheels", tmp_path / "report.json"
    wheels.mkdir()
    for name in ("nobody_has_this-1.0", "pytest-0.1"):
        with zipfile.ZipFile(wheels / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name.partition('-')[0]}.py", "raise ImportError('unpacked')")
    kept = {name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")}
    kept |= {
        "GPU_CHECK_WHEELS": os.fspath(wheels),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
    }
    done = subprocess.run(
        [os.fspath(ROOT / "scripts" / "gpu_check.sh"), os.fspath(file)],
        capture_output=True,
        text=True,
        check=False,
        env=kept,
    )
    failed = json.loads(file.read_text("utf-8"))["failed"]

    assert (done.returncode, "unpacked nobody_has_this" in done.stdout) == (1, True), done.stderr
    assert "unpacked pytest" not in done.stdout
    assert all("required capability gpu: " in reason for reason in failed.values())
    assert len(failed) > 10
