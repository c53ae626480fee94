# SPDX-License-Identifier: Apache-2.0
"""How long `startup-plan bench` takes to notice that a server is healthy, in milliseconds.

python benchmarks/bench_overhead.py [BOOTS]

A scripted server writes down, on the clock that all processes share, when it could first say that
it is healthy and when it first said so. The benchmark has its own note of when it noticed.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
from pathlib import Path

from startup_plan.bench.server.launch import POLL_SECONDS, Server, new_marker
from startup_plan.support.process_group import StopSignals

SERVER = Path(__file__).parents[1] / "tests" / "bench" / "scripted_server.py"
LIMIT_MS = 50.0


def boot(folder: Path, number: int, stop: StopSignals) -> tuple[float, float]:
    """Boot a server that gets healthy late; give the milliseconds from could, and from said."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    witness = folder / f"witness-{number}"
    command = [sys.executable, "-I", "-S", str(SERVER), "--port", str(port)]
    command += ["--witness", str(witness), "slow"]
    environment = {**os.environ, "VLLM_CACHE_ROOT": str(folder / f"cache-{number}")}
    log = folder / f"log-{number}"
    with Server(command, environment, new_marker(), log, stop) as server:
        healthy = server.wait_until_healthy(port, "/health", 60.0)
        if healthy is None:
            raise SystemExit("the scripted server did not get healthy")
        noticed = server.launched + healthy
        server.end(20.0)
    could, said = (float(Path(f"{witness}.{what}").read_text()) for what in ("could", "said"))
    return (noticed - could) * 1e3, (noticed - said) * 1e3


def described(values: list[float]) -> dict[str, float]:
    """Give median and most."""
    return {"median_ms": round(statistics.median(values), 2), "most_ms": round(max(values), 2)}


if __name__ == "__main__":
    boots = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name, StopSignals() as signals:
        pairs = [boot(Path(name), number, signals) for number in range(boots)]
    from_could, from_said = (list(column) for column in zip(*pairs, strict=True))
    print(
        json.dumps(
            {
                "boots": boots,
                "poll_ms": POLL_SECONDS * 1e3,
                "since_it_could_say_so": described(from_could),
                "since_it_first_said_so": described(from_said),
                "limit_ms": LIMIT_MS,
            },
            indent=2,
        )
    )
    sys.exit(0 if max(from_could) <= LIMIT_MS else 1)
