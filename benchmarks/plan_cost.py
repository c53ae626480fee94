# SPDX-License-Identifier: Apache-2.0
"""What looking up and saving a plan costs: the reference beside the module that vLLM ships.

    python benchmarks/plan_cost.py [--json FILE]

Needs an installed vLLM (any build; the CPU build does), because the cost of a key is dominated by
vLLM's own `compute_hash()` of a real configuration. Both modules run in one process, in turns, on
the same worker, each with a plan that it saved itself, on a disk whose fsync is real. Ratios of one
run travel; the times do not.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GIB = 2**30


def tiny_model(folder: str) -> str:
    """A Llama configuration small enough to be built offline; no weights are needed here."""
    from transformers import LlamaConfig  # noqa: PLC0415  # comes with vLLM

    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        max_position_embeddings=512,
        architectures=["LlamaForCausalLM"],
    )
    config.save_pretrained(folder)
    return folder


def real_worker(model: str) -> Any:
    """The parts of a worker that a plan looks at, around a real configuration."""
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # after the environment is set

    config = EngineArgs(
        model=model, skip_tokenizer_init=True, max_model_len=256, dtype="float32"
    ).create_engine_config()
    total = 80 * GIB
    return SimpleNamespace(
        vllm_config=config,
        cache_config=config.cache_config,
        parallel_config=config.parallel_config,
        model_config=config.model_config,
        rank=0,
        local_rank=0,
        device=SimpleNamespace(type="cuda", index=0),
        init_snapshot=SimpleNamespace(free_memory=total - GIB, total_memory=total),
        requested_memory=math.ceil(total * config.cache_config.gpu_memory_utilization),
        model_runner=SimpleNamespace(model_memory_usage=14 * GIB),
    )


def in_turns(rounds: int, calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median microseconds of each call, taken in turns so that drift hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            taken[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def floor(folder: str, data: bytes) -> None:
    """The least that a durable replace can do: write, fsync, replace, fsync of the folder."""
    temporary, final = os.path.join(folder, "t"), os.path.join(folder, "f")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    os.replace(temporary, final)
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR", VLLM_ENABLE_STARTUP_PLAN="1")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch, contextlib.ExitStack() as stack:
        os.environ["VLLM_CACHE_ROOT"] = os.path.join(scratch, "cache")
        model = tiny_model(stack.enter_context(tempfile.TemporaryDirectory()))
        worker = real_worker(model)
        shipped = importlib.import_module("vllm.v1.worker.startup_plan")
        reference = importlib.import_module("startup_plan")
        kv = 40 * GIB

        def applying(module: Any) -> Callable[[], None]:
            def call() -> None:
                worker.cache_config.kv_cache_memory_bytes = None
                module.maybe_apply_startup_plan(worker)
                if worker.cache_config.kv_cache_memory_bytes != kv:
                    raise SystemExit(f"{module.__name__} did not apply the plan that it saved")

            return call

        def saving(module: Any) -> Callable[[], None]:
            def call() -> None:
                worker.cache_config.kv_cache_memory_bytes = None
                module.maybe_save_startup_plan(worker, kv)

            return call

        for module in (shipped, reference):
            saving(module)()
        plans = sorted((Path(scratch) / "cache" / "startup_plan").iterdir())
        size = max(plan.stat().st_size for plan in plans)
        apply = in_turns(
            options.rounds, {"shipped": applying(shipped), "reference": applying(reference)}
        )
        beside = os.path.join(scratch, "cache", "beside")
        os.mkdir(beside)
        # In a boot the look-up comes first and is remembered; a save alone would repeat it.
        applying(reference)()
        save = in_turns(
            options.rounds,
            {
                "floor": lambda: floor(beside, b"x" * size),
                "reference": saving(reference),
            },
        )
    figures = {
        "vllm": importlib.import_module("vllm").__version__,
        "rounds": options.rounds,
        "plan_bytes": size,
        "apply_us": apply,
        "apply_ratio": apply["reference"] / apply["shipped"],
        "save_us": save,
        "save_ratio_to_floor": save["reference"] / save["floor"],
    }
    print(json.dumps(figures, indent=2))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
