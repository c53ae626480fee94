# SPDX-License-Identifier: Apache-2.0
"""What `import startup_plan` adds to a bare interpreter, in milliseconds, and what it drags in.

python benchmarks/import_time.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

HEAVY = ("torch", "vllm", "hypothesis", "pytest", "rich", "click")


def run(code: str, repeats: int = 15) -> float:
    """Median milliseconds of a fresh interpreter that runs `code`."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


if __name__ == "__main__":
    probe = f"import sys, startup_plan; print([m for m in {HEAVY!r} if m in sys.modules])"
    dragged = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True)
    bare = run("pass")
    print(
        json.dumps(
            {
                "bare_ms": round(bare, 1),
                "added_ms": round(run("import startup_plan") - bare, 1),
                "heavy_modules_imported": dragged.stdout.decode().strip(),
            },
            indent=2,
        )
    )
