# SPDX-License-Identifier: Apache-2.0
"""How long the gate takes, and whether it always says the same.

    python benchmarks/gate_runs.py SUBJECT [--runs 20] [--quick] [--json FILE]

Runs `startup-plan gate SUBJECT` in fresh processes, one after the other, and compares the verdicts.
Two different verdicts on one subject are a defect, and end with status 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def run(subject: str, arguments: list[str]) -> tuple[float, dict[str, Any]]:
    """Seconds and the report of one gate."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "startup_plan", "gate", subject, "--json", str(file)]
        start = time.perf_counter()
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
        taken = time.perf_counter() - start
        if not file.exists():
            raise SystemExit(f"the gate wrote no report (status {done.returncode}): {done.stderr}")
        return taken, json.loads(file.read_text())


def main() -> int:
    """Print the figures as JSON; status 1 if two verdicts differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("subject")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seconds: list[float] = []
    verdicts: set[tuple[Any, ...]] = set()
    last: dict[str, Any] = {}
    for _ in range(options.runs):
        taken, last = run(options.subject, ["--quick"] if options.quick else [])
        seconds.append(taken)
        verdicts.add(tuple((r["id"], r["status"]) for r in last["requirements"]))
    figures = {
        "subject": options.subject,
        "sha256": last["subject"]["sha256"],
        "profile": last["suite"]["profile"],
        "runs": options.runs,
        "different_verdicts": len(verdicts),
        "median_seconds": round(statistics.median(seconds), 1),
        "longest_seconds": round(max(seconds), 1),
        "counters": last["summary"].get("counters", {}),
    }
    print(json.dumps(figures, indent=2))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(len(verdicts) > 1)


if __name__ == "__main__":
    sys.exit(main())
