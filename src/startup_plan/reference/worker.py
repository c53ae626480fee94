# SPDX-License-Identifier: Apache-2.0
"""One boot of one worker: look up, ask the group, apply; later save under the same key.

`vllm/v1/worker/gpu_worker.py` calls `maybe_apply_startup_plan` before it measures memory and
`maybe_save_startup_plan` after it has captured its CUDA graphs. Whatever goes wrong here costs a
profiling run and a line in the log, never a boot.
"""

from __future__ import annotations

import contextlib
import operator
import os
from typing import Any, final

from . import beside, bounds, fingerprint, identity, plan, store, vllm_access, vote
from .credentials import for_the_log
from .plan import PLAN_SCHEMA_VERSION, NoPlanError, Plan

_REMEMBERED = "_startup_plan_lookup"
_NONE_FOUND = "none found"


@final
class Lookup:
    """What was found out at the start of a boot, kept until its end (KEY-16).

    Args:
        fingerprint: the key, or None if there can be no plan for this boot (KEY-17).
        factors: the inputs behind the key.
        memory: what the worker knew of its device.
        reason: why there is no key.
    """

    __slots__ = ("account", "factors", "fingerprint", "memory", "reason")

    def __init__(
        self,
        fingerprint: str | None,
        factors: dict[str, Any],
        memory: bounds.Memory | None,
        reason: str = "",
    ) -> None:
        """Hold the findings."""
        self.fingerprint = fingerprint
        self.factors = factors
        self.account: dict[str, Any] | None = None
        self.memory = memory
        self.reason = reason


def compute_plan_fingerprint(
    vllm_config: Any, rank: int, world_size: int, worker: Any = None
) -> str:
    """The key of a rank's plan: 16 lowercase hexadecimal characters.

    Args:
        vllm_config: the engine's `VllmConfig`.
        rank: the worker's rank in its vote.
        world_size: the number of ranks of that vote.
        worker: the worker itself, whose own device then counts; without it the device that
            this process has chosen does.

    Raises:
        Exception: whatever a query of the device, the runtime or the configuration raises.
    """
    return fingerprint.key_of(_factors(vllm_config, rank, world_size, worker))


def maybe_apply_startup_plan(worker: Any) -> None:
    """Set `worker.cache_config.kv_cache_memory_bytes` (bytes) if a plan may be applied.

    A no-op unless `VLLM_ENABLE_STARTUP_PLAN=1`; an explicit value stays as it is (GATE-05).
    Whatever happens is said in one line of the log (LOG-01) and nothing is raised.
    """
    if not vllm_access.envs().VLLM_ENABLE_STARTUP_PLAN:
        return
    logger = vllm_access.logger()
    if worker.cache_config.kv_cache_memory_bytes is not None:
        logger.info("Startup plan: not used, kv_cache_memory_bytes was set explicitly.")
        return
    found = look_up(worker)
    setattr(worker, _REMEMBERED, found)
    candidate, reason = _candidate(found)
    objection = vote.objection(worker, ready=candidate is not None)
    reason = reason or objection
    if candidate is None or found.memory is None or reason:
        _keep_account(found, worker.vllm_config)
        # Only now, so that nobody has waited with the vote for it.
        reason += _neighbour(found) if reason.startswith(_NONE_FOUND) else ""
        logger.info("Startup plan: %s; profiling.", reason)
        return
    worker.cache_config.kv_cache_memory_bytes = candidate.kv_cache_memory_bytes
    logger.info(
        "Startup plan: applied %s, KV cache %s, free memory %s, baseline %s; not measuring%s.",
        candidate.fingerprint,
        bounds.size(candidate.kv_cache_memory_bytes),
        bounds.size(found.memory.free),
        bounds.size(candidate.free_memory_baseline),
        _advice(candidate, found.memory),
    )


def maybe_save_startup_plan(worker: Any, kv_cache_memory_bytes: int) -> None:
    """Store what this boot measured, under the key that it looked up (KEY-16).

    A no-op unless `VLLM_ENABLE_STARTUP_PLAN=1`, and where the value was given or applied rather
    than measured (GATE-05, BOOT-04). A failure is said in the log, never raised.

    Args:
        worker: the worker that measured.
        kv_cache_memory_bytes: the KV-cache size, in bytes, that a later boot shall use.
    """
    if not vllm_access.envs().VLLM_ENABLE_STARTUP_PLAN:
        return
    logger = vllm_access.logger()
    if worker.cache_config.kv_cache_memory_bytes is not None:
        logger.info("Startup plan: not saved, the KV-cache size was given, not measured.")
        return
    found = getattr(worker, _REMEMBERED, None) or look_up(worker)
    if found.fingerprint is None or found.memory is None:
        logger.warning("Startup plan: not saved, %s.", found.reason)
        return
    try:
        _keep_account(found, worker.vllm_config)
        _check_measurement(worker, found.memory)
        record = Plan(
            found.fingerprint,
            bounds.storable(_graphs_once(worker, kv_cache_memory_bytes), found.memory),
            found.memory.free,
            found.memory.weights,
            found.account,
        )
        path = _plan_path(found.fingerprint)
        store.save(path, plan.encode(record))
    except NoPlanError as error:
        logger.warning("Startup plan: not saved, %s.", error)
    except MemoryError:
        raise
    except Exception as error:
        logger.warning("Startup plan: not saved, %s.", _told(error))
    else:
        logger.info(
            "Startup plan: saved %s to %s.", bounds.size(record.kv_cache_memory_bytes), path
        )


def look_up(worker: Any) -> Lookup:
    """The key of this boot and what is known of its memory; never raises (KEY-17)."""
    try:
        config = worker.vllm_config
        factors = _factors(config, worker.rank, worker.parallel_config.world_size, worker)
        return Lookup(fingerprint.key_of(factors), factors, _memory(worker))
    except Exception as error:
        return Lookup(None, {}, None, f"no identity, it cannot be determined: {_told(error)}")


def _keep_account(found: Lookup, config: Any) -> None:
    """Shorten the factors to what a plan carries: settings that differ from their defaults.

    This is done when a boot turns out to measure, which takes seconds, so that neither a boot that
    applies nor the save pays for it.
    """
    if found.fingerprint is None or found.account is not None:
        return
    found.account = {}
    # Nobody decides by the account, so nothing that is odd about a setting may end a boot here.
    with contextlib.suppress(Exception):
        found.account = found.factors | {
            "settings": fingerprint.account_of(config, found.factors["settings"]),
            "environment": fingerprint.account_of_environment(found.factors["environment"]),
        }


def _check_measurement(worker: Any, memory: bounds.Memory) -> None:
    """Refuse a measurement during which somebody else gave memory back.

    vLLM's worker takes the difference of two readings of the device for what it has consumed. What
    a neighbour gives back in between counts as memory for the KV cache, and is gone when the
    neighbour returns. A neighbour of less than what the engine holds beside its weights cannot be
    told from the engine.

    Raises:
        NoPlanError: less was taken than the weights take.
    """
    consumed = getattr(worker, "total_consumed", None)
    if type(consumed) is int and memory.weights is not None and consumed < memory.weights:
        raise NoPlanError(
            f"memory was given back by others while it was measured: {bounds.size(consumed)} were "
            f"taken, and the weights alone take {bounds.size(memory.weights)}"
        )


def _graphs_once(worker: Any, suggestion: Any) -> Any:
    """`suggestion` with CUDA graphs counted once (BOOT-08); bytes.

    vLLM's worker takes the graphs off the measurement when it has estimated them, and from 0.27 on
    again when it has captured them (`gpu_worker.py`, `determine_available_memory` and
    `compile_or_warm_up_model`). That it does so is seen in its figures: what it takes for consumed
    and for the peak has the estimate in it. Never more comes out than the boot itself allocated.
    """
    estimate = getattr(worker, "cudagraph_memory_estimate", None)
    allocated = getattr(worker, "available_kv_cache_memory_bytes", None)
    if not (type(suggestion) is int and type(estimate) is int and type(allocated) is int):
        return suggestion
    counted = getattr(vllm_access.envs(), "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", False)
    if not counted or estimate <= 0 or not _has_the_estimate_twice(worker, allocated):
        return suggestion
    return max(suggestion, min(suggestion + estimate, allocated))


def _has_the_estimate_twice(worker: Any, allocated: int) -> bool:
    """Whether what is left of the budget after consumption and peak is what was allocated."""
    figures = ("requested_memory", "total_consumed", "peak_activation_memory")
    requested, consumed, peak = (getattr(worker, name, None) for name in figures)
    if not (type(requested) is int and type(consumed) is int and type(peak) is int):
        return False
    return requested - consumed - peak == allocated


def _candidate(found: Lookup) -> tuple[Plan | None, str]:
    """The plan that this rank could apply, or None and why not; never raises."""
    if found.fingerprint is None or found.memory is None:
        return None, found.reason
    path = _plan_path(found.fingerprint)
    try:
        data = store.load(path)
        if data is None:
            return None, f"{_NONE_FOUND} at {path}"
        candidate = plan.decode(data, found.fingerprint)
        refusal = bounds.refusal(candidate, found.memory)
    except NoPlanError as error:
        return None, f"ignoring what lies at {path}, {error}"
    except Exception as error:
        return None, f"{path} not read, {_told(error)}"
    if refusal is not None:
        return None, f"{found.fingerprint} refused, {refusal}"
    return candidate, ""


def _advice(candidate: Plan, memory: bounds.Memory) -> str:
    """What to do where a plan was measured beside neighbours that are gone (LOG-03)."""
    if not bounds.is_small(candidate, memory):
        return ""
    return (
        ", although far more is free today than when it was measured: remove "
        f"{_plan_path(candidate.fingerprint)} to measure anew"
    )


def _neighbour(found: Lookup) -> str:
    """In what this boot differs from the plan that is most like it (LOG-03)."""
    if found.fingerprint is None or not found.account:
        return ""
    with contextlib.suppress(Exception):
        return beside.difference(os.path.dirname(_plan_path(found.fingerprint)), found.account)
    return ""


def _factors(config: Any, rank: int, world_size: int, worker: Any) -> dict[str, Any]:
    device = identity.describe_device(worker)
    if worker is not None:
        # A slice of a device (MIG) reports the whole to the platform, and its own size here.
        device["visible_memory"] = operator.index(worker.init_snapshot.total_memory)
    return {
        "schema": PLAN_SCHEMA_VERSION,
        "config_hash": config.compute_hash(),
        "gpu_memory_utilization": float(config.cache_config.gpu_memory_utilization),
        "rank": rank,
        "world_size": world_size,
        "environment": fingerprint.environment_of(os.environ),
        "settings": fingerprint.settings_of(config),
        **device,
        **identity.describe_runtime(),
    }


def _memory(worker: Any) -> bounds.Memory:
    snapshot = worker.init_snapshot
    weights = getattr(getattr(worker, "model_runner", None), "model_memory_usage", None)
    return bounds.Memory(
        operator.index(snapshot.free_memory),
        operator.index(snapshot.total_memory),
        float(worker.cache_config.gpu_memory_utilization),
        None if weights is None else int(weights),
    )


def _plan_path(fingerprint: str) -> str:
    """Where the plan of this key is stored (KEY-15)."""
    return store.path_of(vllm_access.envs().VLLM_CACHE_ROOT, fingerprint)


def _load_plan(fingerprint: str) -> Plan | None:
    """The plan stored under this key, or None if there is no file.

    Raises:
        NoPlanError: something else lies there.
    """
    data = store.load(_plan_path(fingerprint))
    return None if data is None else plan.decode(data, fingerprint)


def _applicable_kv_cache_memory_bytes(candidate: Plan, memory: bounds.Memory) -> int | None:
    """The KV-cache size in bytes that may be applied now, or None (GATE-01, GATE-03, GATE-08)."""
    return None if bounds.refusal(candidate, memory) else candidate.kv_cache_memory_bytes


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {for_the_log(str(error), os.environ)[:300]}"
