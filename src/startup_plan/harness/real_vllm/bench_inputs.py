# SPDX-License-Identifier: Apache-2.0
"""The startup benchmark on a real vLLM that runs on a CPU, with a tiny model made on the spot."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from startup_plan.support.ports import free_port

from . import tiny_models

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOKENS: Final = 8
"""Tokens of an answer before one may end it."""

PHASES: Final = ("uncached", "cache-fill", "cache-hit", "plan-fill", "plan-hit")

_DEVICE_BYTES: Final = 8 << 30
_LETTERS: Final = range(ord("A"), ord("Q"))
"""What an answer can be made of until it may end."""

_GREEDY: Final[Mapping[str, Any]] = {
    "model": "tiny",
    "temperature": 0,
    "max_tokens": 3 * TOKENS,
    "min_tokens": TOKENS,
    # A random model does not end of its own accord; so almost any token ends its answer.
    "stop_token_ids": [token for token in range(tiny_models.VOCABULARY) if token not in _LETTERS],
    "return_token_ids": True,
}
_REQUESTS: Final[Mapping[str, dict[str, Any]]] = {
    "text": {**_GREEDY, "prompt": "Which plan?"},
    "code": {**_GREEDY, "messages": [{"role": "user", "content": "def plan():"}]},
}


def prepare(root: Path, workers: Path, *options: str) -> list[str]:
    """Make the model and the requests; the words of `startup-plan` that benchmark them.

    vLLM's own CPU worker has no startup plan, so the server gets one that has, and the drop-in.

    Args:
        root: an empty folder; the benchmark writes to `out` in it.
        workers: the folder of `plan_worker.py`.
        options: further options of the benchmark.
    """
    model = tiny_models.make("llama", root / "model", weights=True)
    requests = []
    for name, body in _REQUESTS.items():
        file = root / f"{name}.json"
        file.write_text(json.dumps(body), "utf-8")
        requests += ["--request", str(file)]
    environment = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "STARTUP_PLAN_PLUGIN": "1",
        "PYTHONPATH": os.pathsep.join([str(workers), *filter(None, [os.getenv("PYTHONPATH")])]),
        "PLAN_WORKER_RECORD": str(root / "record"),
        "PLAN_WORKER_FREE_BYTES": str(_DEVICE_BYTES),
        "PLAN_WORKER_TOTAL_BYTES": str(_DEVICE_BYTES),
    }
    settings = [word for pair in environment.items() for word in ("--env", "=".join(pair))]
    port = free_port()
    return [
        "bench",
        *("--output-dir", str(root / "out"), "--port", str(port), *requests, *settings),
        *("--phases", ",".join(PHASES), "--timeout", "300", *options),
        *("--", sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", "tiny"),
        *("--worker-cls", "plan_worker.PlanWorker", "--distributed-executor-backend", "mp"),
        *("--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "4"),
        *("--gpu-memory-utilization", "0.15", "--host", "127.0.0.1", "--port", str(port)),
    ]
