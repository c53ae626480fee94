# SPDX-License-Identifier: Apache-2.0
"""How many megabytes a setting outside vLLM's own hash moves, measured on a CPU where it can be.

    python benchmarks/moved_bytes.py [--json FILE]

Needs an installed CPU build of vLLM. For each case a process of its own builds a real
configuration of a small model with random weights, lets vLLM's own CPU worker load it and run its
own profiling pass, and counts the bytes of all tensors that are alive: each operator's results
are noted as it returns (`TorchDispatchMode`), and forgotten when their storage goes. The same again
with the setting at another value; the difference of the peaks is what the measurement would see.
Scratch memory inside an operator is not seen, so the figures are lower bounds.

The multimodal cases need a torchvision that can be imported beside a CPU torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

from startup_plan.harness.census import judge as census
from startup_plan.harness.real_vllm import tiny_models

MIB: Final = 1 << 20
_LONGEST: Final = 300.0
_VOCABULARY: Final = 32_000
_EDGE: Final = 224
_PATCH: Final = 14
_LENGTH: Final = 1024

_POOLING: Final = {"runner": "pooling", "convert": "embed"}
CASES: Final[tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...]] = (
    ("ModelConfig.logprobs_mode", "llama", {}, {"logprobs_mode": "processed_logprobs"}),
    ("ModelConfig.use_fp64_gumbel", "llama", {}, {"use_fp64_gumbel": True}),
    ("ModelConfig.convert", "llama", _POOLING, {"runner": "pooling", "convert": "classify"}),
    (
        "PoolerConfig.task",
        "llama",
        _POOLING | {"pooler_config": {"task": "embed"}},
        _POOLING | {"pooler_config": {"task": "token_embed"}},
    ),
    ("VllmConfig.reasoning_config", "llama", {}, {"reasoning_config": {}}),
    ("MultiModalConfig.skip_mm_profiling", "multimodal", {}, {"skip_mm_profiling": True}),
    ("MultiModalConfig.mm_encoder_only", "multimodal", {}, {"mm_encoder_only": True}),
    (
        "ImageDummyOptions.count",
        "multimodal",
        {"limit_mm_per_prompt": {"image": 1}},
        {"limit_mm_per_prompt": {"image": 0}},
    ),
    (
        "ImageDummyOptions.width",
        "multimodal",
        {"limit_mm_per_prompt": {"image": {"count": 1, "width": 224, "height": 224}}},
        {"limit_mm_per_prompt": {"image": {"count": 1, "width": 2048, "height": 224}}},
    ),
    (
        "SchedulerConfig.enable_chunked_prefill",
        "multimodal",
        {"enable_chunked_prefill": True},
        {"enable_chunked_prefill": False},
    ),
)
"""Setting, model, engine arguments before and after."""

WHY_NOT: Final = {
    "activations": "needs a mixture of experts over several devices, or streams of a GPU",
    "adapters": "needs kernels that this build does not have",
    "allocator": "a CPU has no allocator of this kind",
    "attention": "the attention kernels that it chooses have no CPU build",
    "buffers": "only models that are not among the small ones here read it",
    "budget": "no tensor depends on it; it moves the budget itself by its share of the device",
    "communication": "needs several devices, or communicators of a GPU",
    "compiler": "nothing is compiled in an eager pass; what is compiled for a CPU says little",
    "device": "needs a second device",
    "draft": "the rejection sampler of this vLLM needs Triton, which has no CPU backend",
    "encoder": "needs a model with that modality, or encoder kernels of a GPU",
    "estimate": "it is arithmetic on what was measured; no tensor depends on it",
    "foreign-code": "depends on the code that it brings in",
    "graphs": "a CPU captures no CUDA graphs",
    "kernels": "the kernels that it chooses have no CPU build",
    "libraries": "depends on drivers and libraries of a GPU",
    "observer": "needs the profilers of a GPU",
    "offload": "weights on a CPU cannot be moved to a host",
    "pooler": "needs a model with such a head",
    "sampler": "only a sampler reads it that needs Triton or a GPU",
    "sharding": "needs several ranks",
    "state": "needs a model with recurrent state, or kernels of a GPU",
    "warm-up": "nothing is tuned or compiled just in time on a CPU",
    "weights": "needs checkpoints or loaders of that kind",
}
"""Reason in the census -> why nothing can be measured on a CPU for a setting that has it."""


def measure(models: Path, kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Bytes alive after loading and at the peak of the profiling pass, or what went wrong."""
    command = [sys.executable, __file__, "--child", str(models), kind, json.dumps(arguments)]
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=_LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return {"trouble": f"took more than {_LONGEST:.0f} s"}
    for line in child.stdout.splitlines():
        if line.startswith("measured "):
            found: dict[str, Any] = json.loads(line.removeprefix("measured "))
            return found
    lines = child.stderr.strip().splitlines() or ["it said nothing"]
    return {"trouble": next((line for line in reversed(lines) if "Error" in line), lines[-1])}


def prepare(models: Path, kind: str) -> None:
    """A tiny model, made large enough for its tensors to be told from noise."""
    folder = tiny_models.make(kind, models / kind)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    text = config.get("text_config", config)
    text["vocab_size"], text["max_position_embeddings"] = _VOCABULARY, _LENGTH
    if "vision_config" in config:
        config["vision_config"] |= {"image_size": _EDGE, "patch_size": _PATCH}
        tokens = (_EDGE // _PATCH) ** 2
        config["vision_config"]["num_image_tokens"] = tokens
        text["num_image_tokens"] = tokens
        size = {"height": _EDGE, "width": _EDGE}
        _edit(folder / "preprocessor_config.json", {"size": size, "image_seq_length": tokens})
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary.setdefault("\n", len(vocabulary))  # which PaliGemma asks for by this name
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")


def _edit(file: Path, changes: dict[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


def child(models: Path, kind: str, arguments: dict[str, Any]) -> None:
    """Build, load and profile; print what was alive."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_PLUGINS": ""}
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    from vllm.config import PoolerConfig, ReasoningConfig, set_current_vllm_config  # noqa: PLC0415
    from vllm.utils.network_utils import (  # noqa: PLC0415  # takes seconds
        get_distributed_init_method,
        get_open_port,
    )
    from vllm.v1.worker.cpu_worker import CPUWorker  # noqa: PLC0415

    from startup_plan.harness.census import configs as real_configs  # noqa: PLC0415

    for name, cls in (("pooler_config", PoolerConfig), ("reasoning_config", ReasoningConfig)):
        if name in arguments:
            arguments[name] = cls(**arguments[name])
    usual = {"enforce_eager": True, "load_format": "dummy", "max_model_len": _LENGTH}
    usual |= {"max_num_seqs": 64, "max_num_batched_tokens": _LENGTH}
    config = real_configs.construct(models, kind, **usual | arguments)
    tally = live_tensors()
    with set_current_vllm_config(config):
        address = get_distributed_init_method("127.0.0.1", get_open_port())
        worker = CPUWorker(config, 0, 0, address, is_driver_worker=True)
        with tally:
            worker.init_device()
            worker.load_model()
            loaded = tally.live
            tally.peak = tally.live
            worker.model_runner.profile_run()
    print("measured", json.dumps({"loaded": loaded, "peak": tally.peak}), flush=True)


def live_tensors() -> Any:
    """A mode that counts the bytes of the storages that operators have returned and that live."""
    from torch import Tensor  # noqa: PLC0415  # takes a second
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    class LiveTensors(TorchDispatchMode):  # type: ignore[misc]
        """Bytes alive now and at most."""

        def __init__(self) -> None:
            super().__init__()
            self.live = 0
            self.peak = 0
            self.sizes: dict[int, int] = {}

        def note(self, tensor: Any) -> None:
            storage = tensor.untyped_storage()
            key = storage._cdata  # noqa: SLF001  # equal for all views of one storage
            if key not in self.sizes:
                self.sizes[key] = storage.nbytes()
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self.forget, key)

        def forget(self, key: int) -> None:
            self.live -= self.sizes.pop(key, 0)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            result = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if isinstance(leaf, Tensor):
                    self.note(leaf)
            return result

    return LiveTensors()


def measured(models: Path) -> dict[str, dict[str, Any]]:
    """Setting -> what it moved, for each case."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind, before, after in CASES:
        if not (models / kind).exists():
            prepare(models, kind)
        row: dict[str, Any] = {"before": before, "after": after, "model": kind}
        pair = [measure(models, kind, arguments) for arguments in (before, after)]
        troubles = [one["trouble"] for one in pair if "trouble" in one]
        if troubles:
            row["trouble"] = troubles[0][:200]
        else:
            row["peaks"] = [one["peak"] for one in pair]
            row["moved_bytes"] = pair[1]["peak"] - pair[0]["peak"]
        found[name] = row
        print(f"{name}: {row.get('trouble') or _megabytes(row['moved_bytes'])}", file=sys.stderr)
    return found


def _megabytes(number: int) -> str:
    return f"{number / MIB:+.2f} MiB"


def main() -> None:
    """Measure every case, and say why not of everything else."""
    if sys.argv[1:2] == ["--child"]:
        models, kind, arguments = sys.argv[2:]
        child(Path(models), kind, json.loads(arguments))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write the result there as well")
    options = parser.parse_args()
    taken = census.take("reference")
    outside = [row for row in taken.rows if row.takes_memory and row.hashed in {"no", "partly"}]
    with tempfile.TemporaryDirectory(prefix="moved-") as folder:
        cases = measured(Path(folder))
    not_measured = {
        row.name: cases[row.name]["trouble"] if row.name in cases else WHY_NOT[row.why]
        for row in outside
        if "moved_bytes" not in cases.get(row.name, {})
    }
    result = {
        "vllm": taken.seen["vllm"],
        "torch": taken.seen["torch"],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "outside_the_hash": len(outside),
        "measured": {name: row for name, row in cases.items() if "moved_bytes" in row},
        "not_measurable_on_cpu": not_measured,
    }
    for name, row in cases.items():
        if "moved_bytes" in row:
            peaks = " -> ".join(f"{peak / MIB:.2f}" for peak in row["peaks"])
            print(f"{name:44} {peaks:>20} MiB  {_megabytes(row['moved_bytes']):>12}")
    print("0.00: what it takes fits below the peak that the pass has elsewhere on these models.")
    print(f"{len(outside)} settings and variables outside vLLM's hash take memory, or may;")
    print(f"{len(not_measured)} of them cannot be measured on a CPU:")
    for reason in sorted(set(not_measured.values())):
        names = [name for name, why in not_measured.items() if why == reason]
        print(f"  {len(names):3}  {reason}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
