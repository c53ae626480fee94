# SPDX-License-Identifier: Apache-2.0
"""No startup plan: where one would look its plan up, this says what it finds there, in JSON lines.

It runs on the stubs and on real vLLM alike, so that what the two have can be held side by side.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.stubs.settings import CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable

HOMES: Final = {
    "__version__": "vllm",
    "envs": "vllm",
    "current_platform": "vllm.platforms",
    "Platform": "vllm.platforms.interface",
    "DeviceCapability": "vllm.platforms.interface",
    "init_logger": "vllm.logger",
    "logger": "vllm.logger",
    "MemorySnapshot": "vllm.utils.mem_utils",
    "Worker": "vllm.v1.worker.gpu_worker",
    "WorkerBase": "vllm.v1.worker.worker_base",
    "GiB_bytes": "vllm.utils.mem_constants",
    "format_gib": "vllm.utils.mem_utils",
    "safe_hash": "vllm.utils.hashing",
    "get_world_group": "vllm.distributed.parallel_state",
    "get_tp_group": "vllm.distributed.parallel_state",
    "get_pp_group": "vllm.distributed.parallel_state",
    "get_dp_group": "vllm.distributed.parallel_state",
    "get_ep_group": "vllm.distributed.parallel_state",
    "GroupCoordinator": "vllm.distributed.parallel_state",
    "get_tensor_model_parallel_rank": "vllm.distributed.parallel_state",
    "get_tensor_model_parallel_world_size": "vllm.distributed.parallel_state",
    "is_global_first_rank": "vllm.distributed.parallel_state",
    "model_parallel_is_initialized": "vllm.distributed.parallel_state",
    "tensor_model_parallel_all_reduce": "vllm.distributed.communication_op",
}
"""Name -> the module in which vLLM keeps it."""

QUERIES: Final = (
    "get_device_name", "get_device_total_memory", "get_device_capability", "get_device_uuid",
    "is_cuda", "is_rocm", "is_cuda_alike", "is_xpu", "is_out_of_tree", "is_cpu",
    "is_tpu", "is_integrated_gpu",
)  # fmt: skip
_PART: Final = 4000
"""Characters of a line, at most."""

GIVEN: Final[tuple[object, ...]] = (
    1,
    1.0,
    1.5,
    0,
    True,
    "1",
    "8",
    "0.90",
    "true",
    "x",
    None,
    ["1"],
    (1, 2.0),
    {},
)
"""What each field of each configuration class is constructed with."""


def compute_plan_fingerprint(vllm_config: Any, rank: int, world_size: int) -> str:
    """No key."""
    del vllm_config, rank, world_size
    return "0" * 16


def maybe_apply_startup_plan(worker: Any) -> None:
    """Log what is found, one look at a time: a name, and a part of the JSON of what was seen."""
    from vllm.logger import init_logger  # noqa: PLC0415  # stub or real, as the moment has it

    logger = init_logger("vllm.inspector")
    for name, look in LOOKS.items():
        text = json.dumps(_tried(look, worker))
        # Of a longer line not all is kept.
        for start in range(0, len(text), _PART):
            logger.info("%s", json.dumps([name, text[start : start + _PART]]))


def maybe_save_startup_plan(worker: Any, kv_cache_memory_bytes: int) -> None:
    """Nothing."""


def _tried(look: Callable[[Any], Any], worker: Any) -> Any:
    try:
        return look(worker)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _names(_: Any) -> dict[str, bool]:
    return {name: hasattr(importlib.import_module(home), name) for name, home in HOMES.items()}


def _parameters(function: Any) -> list[list[str]]:
    """Name and default of each parameter, less the first of a method."""
    return [
        [p.name, "" if p.default is p.empty else repr(p.default)]
        for p in inspect.signature(function).parameters.values()
        if p.name not in {"self", "cls"}
    ]


def _platform(_: Any) -> dict[str, Any]:
    interface = importlib.import_module("vllm.platforms.interface").Platform
    return {name: _parameters(getattr(interface, name)) for name in QUERIES}


def _answers(worker: Any) -> dict[str, Any]:
    platform = importlib.import_module("vllm.platforms").current_platform
    index = worker.device.index
    capability = platform.get_device_capability(index)
    return {
        "name": platform.get_device_name(index),
        "total": platform.get_device_total_memory(index),
        "capability": [str(capability), capability.as_version_str(), capability.to_int()],
        "parts": [capability.major, capability.minor],
        "cuda": [platform.is_cuda(), platform.is_rocm(), platform.is_cuda_alike()],
        "kind": [platform.device_type, platform.is_cpu(), platform.is_xpu()],
        "through": [platform.current_device(), platform.get_device_properties(0).total_memory],
        "absent": platform.a_name_that_no_platform_has,
    }


def _snapshot(worker: Any) -> dict[str, Any]:
    made = importlib.import_module("vllm.utils.mem_utils").MemorySnapshot
    snapshot = worker.init_snapshot
    return {
        "fields": [[f.name, repr(f.default)] for f in dataclasses.fields(made)],
        "class": type(snapshot).__name__,
        "types": {f.name: _kind(getattr(snapshot, f.name)) for f in dataclasses.fields(snapshot)},
        "device": [snapshot.device_.type, snapshot.device_.index],
    }


def _worker(worker: Any) -> dict[str, str]:
    return {name: _kind(value) for name, value in sorted(vars(worker).items())}


def _attributes(worker: Any) -> dict[str, list[str]]:
    """Class -> what an object of it has, but for what is private."""
    sections = [
        part
        for part in vars(worker.vllm_config).values()
        if type(part).__name__ in {row["name"] for row in CLASSES}
    ]
    return {
        name: sorted(each for each in dir(held) if not each.startswith("_"))
        for name, held in [
            ("Worker", worker),
            ("VllmConfig", worker.vllm_config),
            *((type(part).__name__, part) for part in sections),
        ]
    }


def _runner(worker: Any) -> dict[str, Any]:
    runner = worker.model_runner
    return {"model_memory_usage": _kind(runner.model_memory_usage)}


def _kind(value: Any) -> str:
    return type(value).__name__


def _environment(_: Any) -> dict[str, Any]:
    envs = importlib.import_module("vllm.envs")
    return {
        "root": _kind(envs.VLLM_CACHE_ROOT),
        "flag": repr(envs.VLLM_ENABLE_STARTUP_PLAN),
        "registered": sorted(envs.environment_variables),
        "factors": sorted(envs.compile_factors()),
        "is_set": [envs.is_set("VLLM_CACHE_ROOT"), envs.is_set("VLLM_PORT")],
        "unknown": _tried(lambda _: envs.VLLM_NO_SUCH_VARIABLE, None).partition(":")[0],
    }


def _torch(worker: Any) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    device = torch.device("cuda:1")
    return {
        "version": _kind(torch.__version__ + ""),
        "runtimes": [_kind(torch.version.cuda), _kind(torch.version.hip), _kind(torch.version.xpu)],
        "device": [device.type, device.index, str(device), device == torch.device("cuda", 1)],
        "worker": [worker.device.type, worker.device.index],
        "accelerator": sorted(
            name
            for name in ("current_device_index", "device_count", "get_memory_info", "is_available")
            if hasattr(torch.accelerator, name)
        ),
        "cuda": sorted(
            name
            for name in ("get_device_properties", "get_device_name", "mem_get_info")
            if hasattr(torch.cuda, name)
        ),
        "groups": [torch.distributed.is_available(), _kind(torch.distributed.is_initialized())],
    }


def _helpers(_: Any) -> dict[str, Any]:
    memory = importlib.import_module("vllm.utils.mem_utils")
    hashing = importlib.import_module("vllm.utils.hashing")
    constants = importlib.import_module("vllm.utils.mem_constants")
    return {
        "gib": constants.GiB_bytes,
        "format": memory.format_gib(3 * 2**29),
        "hash": len(hashing.safe_hash(b"x", usedforsecurity=False).hexdigest()),
    }


def _logger(_: Any) -> list[str]:
    logger = importlib.import_module("vllm.logger").init_logger("vllm.inspector")
    levels = ("debug", "info", "warning", "error", "exception", "critical")
    names = [*levels, "debug_once", "info_once", "warning_once", "log"]
    return [name for name in names if callable(getattr(logger, name, None))]


def _config(worker: Any) -> dict[str, Any]:
    config = worker.vllm_config
    return {
        "class": type(config).__name__,
        "hash": _kind(config.compute_hash()),
        "explicit": repr(config.cache_config.kv_cache_memory_bytes),
        "same": [
            getattr(worker, name) is getattr(config, name)
            for name in ("cache_config", "model_config", "parallel_config", "scheduler_config")
        ],
        "world": [config.parallel_config.world_size, worker.rank, worker.local_rank],
        "types": {
            name: _kind(getattr(config.cache_config, name))
            for name in ("gpu_memory_utilization", "block_size")
        },
    }


def _coercion(_: Any) -> dict[str, list[list[str]]]:
    """`Class.field` -> what becomes of each of `GIVEN`: its type and value, or why not."""
    found = {}
    for row in CLASSES:
        try:
            home = importlib.import_module(f"vllm.{row['source'][:-3].replace('/', '.')}")
        except ModuleNotFoundError:
            continue  # another release has no such class
        cls = getattr(home, row["name"], None)
        for field in () if cls is None else dataclasses.fields(cls):
            name = f"{row['name']}.{field.name}"
            found[name] = [_constructed(cls, field.name, value) for value in GIVEN]
    return found


def _constructed(cls: Any, field: str, value: object) -> list[str]:
    # Building a real class may need more fields than one, so the field's own schema is asked.
    schema = getattr(cls, "__pydantic_core_schema__", None)
    try:
        if schema is None:
            held = getattr(cls(**{field: value}), field)
        else:
            core = importlib.import_module("pydantic_core")
            held = core.SchemaValidator(_schema_of(schema, field)).validate_python(value)
    except Exception as error:
        kinds: list[Any] = getattr(error, "errors", list)()
        return ["refused", *sorted({kind["type"] for kind in kinds})]
    return [type(held).__name__, repr(held)]


def _schema_of(schema: Any, field: str) -> Any:
    """The schema of one field, below whatever validators the class has around all of them."""
    known: dict[str, Any] = {}
    while "fields" not in schema or schema["type"] == "dataclass":
        known |= {each["ref"]: each for each in schema.get("definitions", ())}
        schema = known[schema["schema_ref"]] if "schema_ref" in schema else schema["schema"]
    (found,) = (each["schema"] for each in schema["fields"] if each["name"] == field)
    return found


LOOKS: Final[dict[str, Callable[[Any], Any]]] = {
    "names": _names,
    "platform": _platform,
    "answers": _answers,
    "snapshot": _snapshot,
    "worker": _worker,
    "attributes": _attributes,
    "runner": _runner,
    "environment": _environment,
    "torch": _torch,
    "helpers": _helpers,
    "logger": _logger,
    "config": _config,
    "coercion": _coercion,
}
"""What is looked at -> how."""
