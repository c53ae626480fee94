# SPDX-License-Identifier: Apache-2.0
"""A second startup plan that keeps the contract, with nothing in common with the reference.

It has two uses. It shows that the suite raises no false alarm on an implementation that it was not
written for, and it is the ground on which `startup_plan.harness.zoo.seed` plants faults.

A plan is seven lines of ASCII text: `vllm-startup-plan SCHEMA`, `key KEY`, `kv BYTES`,
`free BYTES`, `weights BYTES` (or `-`), `about` with the factors of the key by name, and `sha256`
with the first 16 characters of the digest of those above it. Of a factor `about` has a few bits,
which tell whether it is another one and not which it is.
The only bytes that are read as a plan are those that a save would have written, so nothing has to
be repaired or guessed. All amounts of memory are in bytes. Where a line exists because of one
sentence of the contract, the comment names it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import errno
import hashlib
import math
import operator
import os
import re
import stat
import time
import zlib
from typing import Any, Final, final

import torch
from vllm import envs
from vllm.logger import init_logger
from vllm.platforms import current_platform

logger = init_logger(__name__)

PLAN_SCHEMA_VERSION = 1

_LIMIT: Final = 64 << 10
_WORD: Final = 1 << 63
_STALE_AFTER_SECONDS: Final = 3600
_PATIENCE_SECONDS: Final = 300
_PLAN_NAME: Final = r"startup_plan_[0-9a-f]{16}\.json"
_SLOT: Final = "_startup_plan_boot"
_SCALARS: Final = frozenset((type(None), bool, int, float, str, bytes))
_ABSENT: Final = ("absent",)
_FEW: Final = 6
_CLOSEST_OF: Final = 8

# Settings that stay out of the key, by class: the audit's rows "irrelevant & not hashed", a whole
# part of the configuration where none of its fields takes memory, and what differs from process to
# process. Every other field is in (KEY-10, KEY-13, KEY-14).
_OUT: Final = {
    "VllmConfig": """
        device_config structured_outputs_config observability_config logging_config
        kv_events_config ec_manager_config watchdog_config instance_id optimization_level
        performance_mode shutdown_timeout""",
    "ModelConfig": """
        model_arch_config tokenizer tokenizer_mode seed allowed_local_media_path
        allowed_media_domains tokenizer_revision spec_target_max_model_len enable_trace_replay
        disable_cascade_attn skip_tokenizer_init served_model_name config_format hf_token
        io_processor_plugin""",
    "PoolerConfig": """
        use_activation dimensions enable_chunked_processing max_embed_len logit_mean logit_sigma
        step_tag_id returned_token_ids""",
    "MultiModalConfig": """
        media_io_kwargs mm_processor_cache_gb mm_processor_cache_type mm_hasher_algorithm
        mm_shm_cache_max_object_size_mb mm_encoder_fp8_scale_save_path
        mm_encoder_fp8_scale_save_margin interleave_mm_strings mm_tensor_ipc
        allow_missing_mm_embeddings mm_ipc_gpu_memory_gb""",
    "CacheConfig": """
        user_specified_block_size prefix_match_unit is_attention_free num_gpu_blocks_override
        enable_prefix_caching prefix_caching_hash_algo prefix_cache_retention_interval
        mamba_page_size_padded skip_page_size_padded enable_mamba_shared_prefix_checkpoint
        num_gpu_blocks num_cpu_blocks simple_cpu_offload_num_blocks
        effective_attention_block_size kv_cache_size_tokens kv_cache_max_concurrency
        hash_block_size cache_hit_alignment_tokens kv_cache_memory_bytes _block_size_resolved""",
    "ParallelConfig": """
        placement_group data_parallel_master_ip data_parallel_rpc_port data_parallel_master_port
        data_parallel_external_lb data_parallel_hybrid_lb max_parallel_loading_workers
        enable_shm_tensor_arena ray_workers_use_nsight ray_runtime_env master_addr master_port
        node_rank numa_bind numa_bind_nodes numa_bind_cpus rank _data_parallel_master_port_list
        _coord_store_port _api_process_count _api_process_rank""",
    "SchedulerConfig": """
        runner_type max_num_scheduled_tokens max_num_active_seqs long_prefill_token_threshold
        long_prefill_token_threshold_adaptive max_num_queued_reqs max_num_queued_tokens
        is_multimodal_model policy disable_chunked_mm_input scheduler_cls
        disable_hybrid_kv_cache_manager scheduler_reserve_full_isl watermark
        prefill_schedule_interval async_scheduling stream_interval""",
    "LoadConfig": """
        download_dir safetensors_load_strategy safetensors_prefetch_num_threads
        safetensors_prefetch_block_size ignore_patterns use_tqdm_on_load pt_load_map_location""",
    "AuxOutputConfig": "max_bytes",
    "MambaConfig": "enable_stochastic_rounding stochastic_rounding_philox_rounds ssu_algorithm",
    "LoRAConfig": "max_cpu_loras default_mm_loras",
    "SpeculativeConfig": """
        tensor_parallel_size disable_eagle_block_drop disable_lookahead_block_hashes
        target_model_config target_parallel_config suffix_decoding_max_tree_depth
        suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor
        suffix_decoding_min_token_prob synthetic_acceptance_rates synthetic_acceptance_length
        fly_entropy_threshold""",
    "WatermarkConfig": "key alpha prf allow_target_only_watermarking",
    "DiffusionConfig": "max_denoising_steps",
    "CompilationConfig": """
        debug_dump_path cache_dir local_cache_dir enabled_custom_ops disabled_custom_ops
        traced_files compilation_time encoder_compilation_time static_forward_context""",
    "ProfilerConfig": """
        torch_profiler_dir torch_profiler_activities proton_profiler_dir proton_context
        proton_data proton_backend proton_mode proton_hook proton_output_format
        torch_profiler_with_stack torch_profiler_with_flops torch_profiler_use_gzip
        torch_profiler_dump_cuda_time_total torch_profiler_record_shapes
        torch_profiler_with_memory detailed_trace_annotation ignore_frontend delay_iterations
        max_iterations warmup_iterations active_iterations wait_iterations""",
    "KVTransferConfig": "engine_id kv_port enable_permute_local_kv kv_load_failure_policy",
    "ECTransferConfig": "engine_id ec_ip ec_port mm_encoder_output_widths",
    "ReasoningConfig": """
        reasoning_parser reasoning_start_str reasoning_end_str _reasoning_start_token_ids
        _reasoning_end_token_ids _natural_reasoning_end_token_ids _enabled""",
}
_AS_FLOAT: Final = ("gpu_memory_utilization",)

# Variables of families that a plan may show the checksum of; of others it shows the name.
_SHOWN: Final = (
    "VLLM_", "PYTORCH_", "TORCH", "TRITON_", "FLASHINFER_", "DEEPEP_", "DEEP_EP_", "DG_",
    "CUDA_", "CUBLAS", "CUDNN_", "NCCL_", "NVSHMEM_", "NVTE_", "HIP_", "HIPBLAS", "HSA_", "ROCM_",
    "ROCR_", "ROCBLAS_", "GPU_", "AMD_", "MIOPEN_", "AITER_", "RCCL_", "HCCL_", "ASCEND_", "ACL_",
    "XPU_", "ZE_", "SYCL_", "ONEAPI_", "CCL_", "MUSA_", "UCX_", "UCC_", "GLOO_", "LMCACHE_",
    "MOONCAKE_", "NIXL_", "TPU_",
)  # fmt: skip
# What whoever starts a process tells it of itself, by how the name begins and ends (KEY-13):
# shells, logins and terminals, as environ(7), ssh(1) and tmux(1) have them, systemd.exec(5),
# Kubernetes and agents of clouds, the schedulers of srun(1), qsub(1) and bsub(1), the launchers of
# mpirun(1), torchrun and Ray, continuous integration, the interpreter, threads, addresses and ids.
_LOCAL: Final = """
    BASH ZSH FISH HIST PROMPT LC_ LESS LS_ SUDO_ XDG_ TERM TMUX SSH_ GPG_ DBUS_ VSCODE_ GNOME_
    KDE_ VTE_ SYSTEMD_ LISTEN_ WATCHDOG_ MEMORY_PRESSURE_ KUBERNETES_ POD_ NODE_ HOST NOMAD_
    ECS_ AWS_ AZURE_ GOOGLE_ GCP_ RUNPOD_ SAGEMAKER_ CONTAINER_ K_REV SLURM SBATCH_ SALLOC_
    SRUN_ PBS_ LSB_ LSF_ SGE_ CONDOR_ _CONDOR_ FLUX_ JOB_ OMPI_ ORTE_ PRTE_ PMIX_ PMI_ HYDRA_
    TORCHELASTIC_ RAY_ CI_ GITHUB_ RUNNER_ GITLAB_ BUILD_ BUILDKITE JENKINS_ CIRCLE PYTEST_
    HYPOTHESIS_ COV_ COVERAGE_ PYTHON VIRTUAL_ENV CONDA_ PIP_ UV_ OMP_ KMP_ MKL_ OPENBLAS_
    MALLOC_ HF_ HUGGINGFACE_ TRANSFORMERS_
"""
_LOCAL_ENDS: Final = """
    _HOST _HOSTNAME _IP _ADDR _ADDRESS _PORT _URL _URI _ENDPOINT _SOCK _SOCKET _PID _UUID _UID
    _JOB_ID _JOBID _RUN_ID _TASK_ID _SESSION_ID _WORKER_ID _NODE_ID _POD_NAME _NODE_NAME
    _proxy _PROXY
"""
_LOCAL_NAMES: Final = """
    _ PWD OLDPWD SHLVL SHELL HOME USER USERNAME LOGNAME MAIL PATH MANPATH TMP TEMP TMPDIR TZ
    LANG PS1 EDITOR PAGER COLORTERM COLUMNS LINES WINDOW WINDOWID DISPLAY STY INVOCATION_ID
    JOURNAL_STREAM MAINPID NOTIFY_SOCKET CREDENTIALS_DIRECTORY JOB_ID PE_HOSTFILE
    RANK_TABLE_FILE CI WORKSPACE NOMAD_ALLOC_DIR NVIDIA_VISIBLE_DEVICES TOKENIZERS_PARALLELISM
"""
# A service called X in the same namespace: X_SERVICE_HOST, X_PORT_8000_TCP_ADDR and the like.
_SERVICE: Final = re.compile(r"\w+_(SERVICE_PORT_\w+|PORT_\d+_\w+)")
_SECRET: Final = re.compile(
    r"(?<![A-Za-z])(secret|passw(or)?d|passphrase|credentials?|authorization|cookie)(?![a-z])"
    r"|(^|_|-|\b)(token|key|key_id|pin|pass|pwd|auth|dsn|otp|apikey|accesskey)$",
    re.IGNORECASE,
)
# Those that stay out: the audit's rows "irrelevant" (the first list leaves "VLLM_" off each name),
# and of the libraries that it does not list: logs, addresses, caches, names of processes.
_OUT_VLLM: Final = """
    TARGET_DEVICE MAIN_CUDA_VERSION GPU_SYNC_CHECK USE_PRECOMPILED USE_PRECOMPILED_RUST
    SKIP_PRECOMPILED_VERSION_SUFFIX DOCKER_BUILD_CONTEXT BUILD_COMMIT BUILD_PIPELINE BUILD_URL
    IMAGE_TAG CONFIG_ROOT CACHE_ROOT HOST_IP PORT RPC_BASE_PATH USE_MODELSCOPE USE_FASTOKENS
    RINGBUFFER_WARNING_INTERVAL PATTERN_MATCH_DEBUG DEBUG_DUMP_PATH ENGINE_READY_TIMEOUT_S
    CHAT_TEMPLATE_RENDER_TIMEOUT CHAT_TEMPLATE_FUEL API_KEY DEBUG_LOG_API_SERVER_RESPONSE
    USAGE_STATS_SERVER NO_USAGE_STATS DO_NOT_TRACK USAGE_SOURCE CONFIGURE_LOGGING
    LOGGING_CONFIG_PATH LOGGING_LEVEL LOGGING_STREAM LOGGING_PREFIX LOGGING_COLOR
    LOG_STATS_INTERVAL TRACE_FUNCTION CPU_KVCACHE_SPACE CPU_OMP_THREADS_BIND
    CPU_NUM_OF_RESERVED_CPU CPU_CI_ENV CPU_ATTN_SPLIT_KV ZENTORCH_WEIGHT_PREPACK CPU_INT4_W4A8
    WORKER_MULTIPROC_METHOD ASSETS_CACHE ASSETS_CACHE_MODEL_CLEAN IMAGE_FETCH_TIMEOUT
    VIDEO_FETCH_TIMEOUT AUDIO_FETCH_TIMEOUT MEDIA_CACHE MEDIA_CACHE_MAX_SIZE_MB
    MEDIA_CACHE_TTL_HOURS MEDIA_FETCH_MAX_RETRIES MAX_MEDIA_DOWNLOAD_SIZE_MB
    MEDIA_URL_ALLOW_REDIRECTS MEDIA_LOADING_THREAD_COUNT MAX_AUDIO_CLIP_FILESIZE_MB
    MAX_AUDIO_DECODE_DURATION_S MAX_AUDIO_DECODE_BYTES MAX_EMBED_DECODE_BYTES
    MAX_AUDIO_PREPROCESS_WORKERS MAX_IMAGE_PIXELS MAX_MEDIA_REQUEST_DECODE_BYTES
    MAX_MEDIA_REQUEST_DOWNLOAD_SIZE_MB VIDEO_LOADER_BACKEND MEDIA_CONNECTOR XLA_CACHE_PATH
    XLA_CHECK_RECOMPILATION XLA_USE_SPMD ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN
    KEEP_ALIVE_ON_ENGINE_DEATH ALLOW_LONG_MAX_MODEL_LEN TEST_FORCE_LOAD_FORMAT
    FASTSAFETENSORS_QUEUE_SIZE HTTP_TIMEOUT_KEEP_ALIVE HTTP_MAX_REQUEST_BODY_SIZE
    MAX_N_SEQUENCES MAX_COMPLETION_PROMPTS MAX_STOP_STRINGS MAX_NUM_BAD_WORDS
    MAX_BAD_WORDS_TOTAL_TOKENS LORA_RESOLVER_CACHE_DIR LORA_RESOLVER_HF_REPO_LIST
    TRITON_JIT_WARMUP_NUM_THREADS ALLOW_RUNTIME_LORA_UPDATING ROCM_SHUFFLE_KV_CACHE_LAYOUT
    ENABLE_V1_MULTIPROCESSING LOG_BATCHSIZE_INTERVAL USE_RUST_FRONTEND USE_RUST_BENCH
    RUST_FRONTEND_PATH SERVER_DEV_MODE V1_OUTPUT_PROC_CHUNK_SIZE RAY_PER_WORKER_GPUS
    RAY_BUNDLE_INDICES DP_MASTER_IP DP_MASTER_PORT RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY
    RAY_EXTRA_ENV_VARS_TO_COPY MODEL_REDIRECT_PATH V1_USE_OUTLINES_CACHE TPU_USING_PATHWAYS
    XGRAMMAR_CACHE_MB REGEX_COMPILATION_TIMEOUT_S MSGPACK_ZERO_COPY_THRESHOLD
    ALLOW_INSECURE_SERIALIZATION DISABLE_REQUEST_ID_RANDOMIZATION NIXL_SIDE_CHANNEL_HOST
    NIXL_SIDE_CHANNEL_PORT P2P_SIDE_CHANNEL_HOST P2P_SIDE_CHANNEL_PORT P2P_MAX_PEERS
    P2P_HANDSHAKE_TIMEOUT_S P2P_IDLE_TIMEOUT_S EC_SIDE_CHANNEL_HOST EC_SIDE_CHANNEL_PORT
    MOONCAKE_CONNECTOR_TIMEOUT MOONCAKE_BOOTSTRAP_PORT MOONCAKE_STORE_TIER_LOG
    MOONCAKE_LOAD_RECV_THREADS MOONCAKE_DISK_STAGING_USABLE_RATIO
    TOOL_PARSE_REGEX_TIMEOUT_SECONDS ENFORCE_STRICT_TOOL_CALLING BEAM_ALWAYS_CONSTRAIN_OUTPUT
    MQ_MAX_CHUNK_BYTES_MB EXECUTE_MODEL_TIMEOUT_SECONDS WORKER_SHUTDOWN_TIMEOUT_SECONDS
    KV_CACHE_LAYOUT SSM_CONV_STATE_LAYOUT MOONCAKE_ABORT_REQUEST_TIMEOUT LOOPBACK_IP
    PROCESS_NAME_PREFIX ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE ENABLE_RESPONSES_API_STORE
    ENABLE_COHERE_API USE_EXPERIMENTAL_PARSER_CONTEXT ENABLE_STARTUP_PLAN
    GPT_OSS_SYSTEM_TOOL_MCP_LABELS GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS SYSTEM_START_DATE
    TOOL_JSON_ERROR_AUTOMATIC_RETRY CUSTOM_SCOPES_FOR_PROFILING NVTX_SCOPES_FOR_PROFILING
    KV_EVENTS_USE_INT_BLOCK_HASHES OBJECT_STORAGE_SHM_BUFFER_NAME NCCL_INCLUDE_PATH GC_DEBUG
    DEBUG_WORKSPACE LOG_MODEL_INSPECTION DEBUG_MFU_METRICS KV_OFFLOAD_MAX_BATCH_DESCRIPTORS
    DISABLE_LOG_LOGO LORA_DISABLE_PDL SKIP_MODEL_NAME_VALIDATION ELASTIC_EP_SCALE_UP_LAUNCH
    ELASTIC_EP_DRAIN_REQUESTS USE_SIMPLE_KV_OFFLOAD USE_SPINLOOP_EXT GPU_NIC_PCIE_MAPPING
    NIC_SELECTION_VARS SKIP_VERSION_SUFFIX REQUEST_BODY_LOG_LEVEL USE_OINK_OPS
    COMPILE_CACHE_SAVE_FORMAT DIST_IDENT
"""
_OUT_OTHER: Final = """
    MAX_JOBS NVCC_THREADS CMAKE_BUILD_TYPE VERBOSE LOCAL_RANK S3_ACCESS_KEY_ID
    S3_SECRET_ACCESS_KEY S3_ENDPOINT_URL NO_COLOR FORCE_COLOR MOONCAKE_PREFERRED_SEGMENT
    MOONCAKE_REQUESTER_LOCAL_HOSTNAME NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_COMM_ID
    NCCL_HOSTID RCCL_DEBUG HCCL_IF_IP HCCL_IF_BASE_PORT NVSHMEM_DEBUG NVSHMEM_DEBUG_FILE
    TORCH_HOME TORCH_LOGS TORCH_LOGS_OUT TORCH_TRACE TORCH_CPP_LOG_LEVEL TORCH_EXTENSIONS_DIR
    TORCH_SHOW_CPP_STACKTRACES TORCH_DISTRIBUTED_DEBUG TORCH_NCCL_DEBUG_INFO_TEMP_FILE
    TORCHINDUCTOR_CACHE_DIR TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_ERROR_FILE
    TRITON_HOME TRITON_CACHE_DIR TRITON_DUMP_DIR TRITON_OVERRIDE_DIR CUDA_CACHE_PATH
    FLASHINFER_WORKSPACE_BASE FLASHINFER_LOGLEVEL FLASHINFER_LOGDEST DG_JIT_CACHE_DIR
    ASCEND_GLOBAL_LOG_LEVEL ASCEND_SLOG_PRINT_TO_STDOUT ASCEND_PROCESS_LOG_PATH
    ASCEND_WORK_PATH ASCEND_CACHE_PATH UCX_LOG_LEVEL UCX_LOG_FILE
"""


def _name(kind: Any) -> str:
    """The import path of a class or function, the same in every process."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _fields(value: Any, kind: Any, above: tuple[int, ...]) -> tuple[Any, ...]:
    """A configuration object as its class, the names that are kept, and their values."""
    names = list(kind.__dataclass_fields__)
    for base in kind.__mro__:
        if base.__name__ in _OUT:
            out = frozenset(_OUT[base.__name__].split())
            names = [name for name in names if name not in out]
    items: list[Any] = [getattr(value, name, _ABSENT) for name in names]
    for place, item in enumerate(items):
        if type(item) not in _SCALARS and item is not _ABSENT:
            items[place] = _plain(item, above)
    for name in _AS_FLOAT:
        if name in names:
            items[names.index(name)] = float(items[names.index(name)])
    return ("config", _name(kind), ",".join(names), *items)


def _plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    """The value as scalars and tagged tuples, whose `repr` no other value shares (KEY-12).

    Scalars stay as they are, and every container becomes a tuple that begins with its kind, so that
    `1`, `"1"`, `1.0` and `True` stay apart and nothing can move across the end of a factor. No
    memory address and no order of a mapping or a set comes through (KEY-13).

    Raises:
        Exception: whatever an object raises that cannot be taken apart.
    """
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if id(value) in above:
        return ("again", above.index(id(value)))
    above = (*above, id(value))
    if hasattr(kind, "__dataclass_fields__"):
        return _fields(value, kind, above)
    if isinstance(value, (list, tuple)):
        return ("sequence", _name(kind), *[_plain(item, above) for item in value])
    if isinstance(value, dict):
        # A password in a loader's or a connector's mapping takes no memory (SAVE-14).
        pairs = [
            (repr(_plain(key, above)), _plain(item, above))
            for key, item in value.items()
            if not (isinstance(key, str) and isinstance(item, str) and _SECRET.search(key))
        ]
        return ("mapping", _name(kind), *sorted(pairs, key=operator.itemgetter(0)))
    if isinstance(value, (set, frozenset)):
        return ("set", _name(kind), *sorted(repr(_plain(item, above)) for item in value))
    if isinstance(value, enum.Enum):
        return ("enum", _name(kind), value.name, _plain(value.value, above))
    if isinstance(value, str):
        return ("text", _name(kind), str(value))
    if isinstance(value, int):
        return ("integer", _name(kind), int(value))
    if isinstance(value, float):
        return ("real", _name(kind), float(value))
    if isinstance(value, type):
        return ("class", _name(value))
    if hasattr(value, "__code__"):
        constants = [item for item in value.__code__.co_consts if type(item) in _SCALARS]
        return ("function", _name(value), value.__code__.co_code, repr(constants))
    if isinstance(value, os.PathLike):
        return ("path", os.fspath(value))
    state = getattr(value, "__dict__", None)
    if state:
        return ("object", _name(kind), _plain(state, above))
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        return ("global", _name(kind), reduced)
    made, arguments, *rest = reduced
    rest = [list(part) if hasattr(part, "__next__") else part for part in rest]
    return ("built", _name(kind), _name(made), _plain((arguments, rest), above))


def _environment() -> list[tuple[str, str]]:
    """The variables that can move memory, as they are set, in the order of their names (KEY-11)."""
    begin, end = tuple(_LOCAL.split()), tuple(_LOCAL_ENDS.split())
    out = {*_OUT_OTHER.split(), *_LOCAL_NAMES.split(), *(f"VLLM_{it}" for it in _OUT_VLLM.split())}
    return [
        (name, text)
        for name, text in sorted(os.environ.items())
        if name not in out
        and not name.startswith(begin)
        and not name.endswith(end)
        and not _SERVICE.fullmatch(name)
        and not _SECRET.search(name)
    ]


_RUNTIMES = ("torch_npu", "torch_musa", "habana_torch_plugin", "torch_xla", "libtpu")
"""Distributions that bring the runtime of an accelerator of which torch knows no version."""


def _runtime() -> tuple[Any, ...]:
    """The versions of vLLM, torch and the runtime of any kind of accelerator (KEY-05, KEY-06)."""
    from vllm import __version__ as vllm_version  # noqa: PLC0415  # asked at each boot

    names = {"cuda", "hip", "xpu", *vars(torch.version)}
    found = {name: getattr(torch.version, name, None) for name in names if name[0] != "_"}
    builds = {name: text for name, text in found.items() if isinstance(text, str)}
    if not (builds.get("cuda") or builds.get("hip")):
        from importlib import metadata  # noqa: PLC0415  # slow, and of use on few machines

        for package in _RUNTIMES:
            with contextlib.suppress(metadata.PackageNotFoundError):
                builds[package] = metadata.version(package)
    return (str(vllm_version), str(torch.__version__), _plain(builds))


def _device_of(worker: Any) -> int | None:
    """The index of the worker's own device, or None if the worker does not say (KEY-04)."""
    device = getattr(worker, "device", None)
    index = getattr(device, "index", None)
    if isinstance(device, str) and device.rpartition(":")[2].isdecimal():
        index = int(device.rpartition(":")[2])
    if not isinstance(index, int):
        index = getattr(worker, "local_rank", None)
    return index if isinstance(index, int) else None


def _current_device() -> int:
    """The device that this process has selected; 0 only where there is no accelerator to select."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return int(accelerator.current_device_index())
    cuda = getattr(torch, "cuda", None)
    return int(cuda.current_device()) if cuda is not None and cuda.is_available() else 0


def _device(index: int, total: int | None) -> tuple[Any, ...]:
    """Name, total memory in bytes and capability of a device.

    Args:
        index: the device as torch counts.
        total: its memory as the worker has read it, for a device that torch does not serve.
    """
    serves = getattr(torch, current_platform.device_type, None)
    if serves is None:
        traits: tuple[Any, ...] = (current_platform.get_device_name(index), total)
    else:
        found = serves.get_device_properties(index)
        rating = (getattr(found, "major", None), getattr(found, "minor", None))
        traits = (found.name, found.total_memory, *rating)
    if not all(traits[:2]):
        raise LookupError(f"device {index} has no name or no memory")
    return tuple(map(_plain, traits))


def compute_plan_fingerprint(
    vllm_config: Any,
    rank: int,
    world_size: int,
    device_index: int | None = None,
    total: int | None = None,
) -> str:
    """The key under which a plan is stored: 16 lowercase hexadecimal characters.

    Args:
        vllm_config: the configuration of the engine.
        rank: the worker's rank.
        world_size: how many ranks the engine has.
        device_index: the worker's device as torch counts; the selected device if left out.
        total: the memory of that device as the worker has read it.

    Raises:
        Exception: whatever a query raises that does not answer; there is no key then.
    """
    return _key(_factors(vllm_config, rank, world_size, device_index, total))


def _key(factors: tuple[tuple[Any, ...], ...]) -> str:
    """The first 16 characters of the digest of all factors."""
    return hashlib.sha256(repr(factors).encode()).hexdigest()[:16]


def _factors(
    vllm_config: Any,
    rank: int,
    world_size: int,
    device_index: int | None,
    total: int | None,
) -> tuple[tuple[Any, ...], ...]:
    """Everything that the measurement depends on; arguments as of `compute_plan_fingerprint`."""
    index = _current_device() if device_index is None else device_index
    return (
        ("schema", _plain(PLAN_SCHEMA_VERSION)),
        ("runtime", _runtime()),
        ("device", _device(index, total)),
        ("rank", _plain(rank), _plain(world_size)),
        ("hash", _plain(vllm_config.compute_hash())),
        ("settings", _plain(vllm_config)),
        ("environment", _environment()),
    )


def _bits(value: Any) -> str:
    """Too few bits of a value to find it by, enough to see that it is another.

    Of a text that may have a password in it there are none.
    """
    if isinstance(value, str) and not re.fullmatch(r"[\w./:,+-]*", value):
        return "-"
    text = re.sub(r"//[^/@\s]*@", "//", repr(value))
    return f"{zlib.crc32(text.encode()) & 0xFFF:03x}"


def _about(factors: tuple[tuple[Any, ...], ...], config: Any) -> dict[str, str]:
    """The factors by name, each by a few bits: sections of the configuration, and variables.

    Of a variable that may hold anything only the name is kept (SAVE-14).
    """
    found = {name: values for name, *values in factors}
    ((vllm, torch_version, builds),) = found["runtime"]
    ((_, _, names, *sections),) = found["settings"]
    (environment,) = found["environment"]
    return {
        "rank": _bits(found["rank"]),
        "device": _bits(found["device"]),
        "model": _bits(getattr(getattr(config, "model_config", None), "model", None)),
        "vllm_version": vllm,
        "torch_version": torch_version,
        "builds": _bits(builds),
        "gpu_memory_utilization": str(float(config.cache_config.gpu_memory_utilization)),
        **{name: _bits(part) for name, part in zip(names.split(","), sections, strict=True)},
        **{name: _bits(text) if name.startswith(_SHOWN) else "-" for name, text in environment},
    }


def _spelt(about: dict[str, str]) -> str:
    """The factors as one line; a name that is none of a variable's usual ones is left out."""
    pairs = [(name, text) for name, text in about.items() if re.fullmatch(r"[!-<>-~]+", name)]
    words = [f"{name}={re.sub('[^!-~]', '?', text)}" for name, text in pairs]
    line = ""
    for word in words:
        if len(line) + len(word) < _LIMIT // 4:
            line += f" {word}"
    return line


def _about_of(path: str, key: str) -> dict[str, str]:
    """The factors that the plan at a path tells; none where there is no plan, or a large one."""
    try:
        if os.lstat(path).st_size > _LIMIT // 4:
            return {}
        data = _read(path)
        _decode(key, data)
        return dict(word.split("=", 1) for word in data.decode().split("\nabout")[1].split()[:-2])
    except Exception:
        return {}


def _difference(path: str, about: str) -> str:
    """In which factors this boot differs from the plan most like it, as a clause (LOG-03)."""
    mine, folder = dict(word.split("=", 1) for word in about.split()), os.path.dirname(path)
    others = [name for name in os.listdir(folder)[:512] if re.fullmatch(_PLAN_NAME, name)]
    times = {name: os.lstat(os.path.join(folder, name)).st_mtime for name in others}
    best: list[str] | None = None
    neighbour = ""
    for name in sorted(others, key=lambda name: -times[name])[:_CLOSEST_OF]:
        theirs = _about_of(os.path.join(folder, name), name[13:29])
        if any(mine.get(key) != theirs.get(key) for key in ("rank", "device", "model")):
            continue
        odd = [key for key in {**theirs, **mine} if mine.get(key) != theirs.get(key)]
        if best is None or len(odd) < len(best):
            best, neighbour = odd, name
    if best is None:
        return ""
    more = f" and {len(best) - _FEW} more" if len(best) > _FEW else ""
    return f"; not {neighbour} because of {', '.join(best[:_FEW]) or 'what it does not tell'}{more}"


def _whole(value: Any) -> int:
    """An integer of any integral type as an int.

    Raises:
        TypeError: the value is a boolean, a float or no number at all.
    """
    if isinstance(value, bool):
        raise TypeError("a boolean is no amount of memory")
    return operator.index(value)


def _shown(value: Any) -> str:
    """A value or an error as one short line that is always safe to print."""
    try:
        if isinstance(value, int) and not -_WORD < value < _WORD:
            return f"an integer of {value.bit_length()} bits"
        text = f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return " ".join(text.split())[:300]


def _encode(key: str, kv_bytes: int, baseline: int, weights: int | None, about: str) -> bytes:
    """The only bytes that are a plan for this key, these amounts and this line of factors."""
    body = (
        f"vllm-startup-plan {PLAN_SCHEMA_VERSION!r}\nkey {key}\nkv {kv_bytes}\n"
        f"free {baseline}\nweights {'-' if weights is None else weights}\nabout{about}\n"
    ).encode()
    return body + f"sha256 {hashlib.sha256(body).hexdigest()[:16]}\n".encode()


def _decode(key: str, data: bytes) -> tuple[int, int, int | None]:
    """KV bytes, baseline and weights of a plan.

    Raises:
        ValueError: the bytes are not those of a plan for this key and schema.
    """
    _, _, kv_line, free_line, weights_line, about, *_ = [
        *data.decode("ascii").split("\n"),
        *[""] * 6,
    ]
    kv_bytes, baseline = int(kv_line[3:]), int(free_line[5:])
    weights = None if weights_line == "weights -" else int(weights_line[8:])
    if not 0 < kv_bytes < _WORD or not 0 < baseline < _WORD:
        raise ValueError("its amounts are out of range")
    if data != _encode(key, kv_bytes, baseline, weights, about[5:]):
        raise ValueError("it is damaged, or belongs to another key or schema")
    return kv_bytes, baseline, weights


def _read(path: str) -> bytes:
    """The bytes of a small regular file; never waits and never reads more than the limit.

    Raises:
        OSError: the file cannot be opened or read.
        ValueError: it is not a regular file, or too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT:
            raise ValueError("it is not a regular file of at most 64 KiB")
        data = b""
        while len(data) <= _LIMIT and (part := os.read(descriptor, _LIMIT + 1 - len(data))):
            data += part
    finally:
        os.close(descriptor)
    if len(data) > _LIMIT:
        raise ValueError("it grew beyond 64 KiB while it was read")
    return data


def _make_folders(folder: str) -> list[str]:
    """Make what is missing; return the folders whose entries a save must make durable."""
    durable = [folder, os.path.dirname(folder)]
    while not os.path.isdir(durable[-2]):
        durable.append(os.path.dirname(durable[-1]))
    os.makedirs(folder, exist_ok=True)
    return durable


def _sweep(folder: str) -> None:
    """Remove what killed saves left behind, once it is an hour old (SAVE-03)."""
    for name in os.listdir(folder):
        if name.startswith("startup_plan_") and name.endswith(".tmp"):
            path = os.path.join(folder, name)
            with contextlib.suppress(Exception):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and (
                    time.time() - status.st_mtime > _STALE_AFTER_SECONDS
                ):
                    os.unlink(path)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of the bytes, however few the system takes at a time (SAVE-11).

    Raises:
        OSError: the system refuses, or takes nothing.
    """
    rest = memoryview(data)
    while rest:
        count = os.write(descriptor, rest)
        if count <= 0:
            raise OSError(errno.EIO, "nothing was written")
        rest = rest[count:]


def _publish(path: str, data: bytes) -> None:
    """Put the bytes at the path, in full and durably, or change nothing there.

    Raises:
        OSError: any step up to the replacement failed; no temporary file stays.
    """
    folder = os.path.dirname(path)
    durable = _make_folders(folder)
    with contextlib.suppress(Exception):
        _sweep(folder)
    temporary = f"{path}.{os.urandom(16).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = -1
    try:
        descriptor = os.open(temporary, flags, 0o666)
        _write(descriptor, data)
        os.fsync(descriptor)
        closing, descriptor = descriptor, -1
        os.close(closing)
        os.replace(temporary, path)
    except BaseException as error:
        if descriptor >= 0:
            with contextlib.suppress(Exception):
                os.close(descriptor)
        if not isinstance(error, FileExistsError):
            with contextlib.suppress(Exception):
                os.unlink(temporary)
        raise
    for entry in durable:
        with contextlib.suppress(Exception):
            _sync_folder(entry)


def _sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@final
class _Boot:
    """What one worker has to remember between the look-up of its plan and the save.

    Attributes:
        about: the factors of the key, for people; nothing is decided by them.
        baseline: what was free when the plan that is applied was measured, in bytes; 0 if none is.
        key: the fingerprint at look-up, under which the save stores (KEY-16).
        path: the plan's file.
        weights: what the loaded weights take in bytes, None if the worker does not say.
        trouble: why there is no identity, "" if there is one (KEY-17).
        settled: True if this boot did not measure: a value was given or applied.
    """

    __slots__ = ("about", "baseline", "key", "path", "settled", "trouble", "weights")

    def __init__(self) -> None:
        """A boot about which nothing is known yet."""
        self.key = self.path = self.about = ""
        self.baseline = 0
        self.weights: int | None = None
        self.trouble = "it was not looked up"
        self.settled = False

    def identify(self, worker: Any) -> None:
        """Find out the key, the path and the weights, or why they cannot be found out."""
        try:
            factors = _factors(
                worker.vllm_config,
                worker.rank,
                worker.parallel_config.world_size,
                _device_of(worker),
                worker.init_snapshot.total_memory,
            )
            self.key = _key(factors)
            with contextlib.suppress(Exception):
                self.about = _spelt(_about(factors, worker.vllm_config))
            name = f"startup_plan_{self.key}.json"
            self.path = os.path.join(os.path.abspath(envs.VLLM_CACHE_ROOT), "startup_plan", name)
            used = getattr(getattr(worker, "model_runner", None), "model_memory_usage", None)
            self.weights = None if used is None else math.ceil(used)
            self.trouble = ""
        except Exception as error:
            self.trouble = _shown(error)

    def look_up(self, worker: Any) -> str:
        """Apply the plan if it may be; say what became of it and why."""
        if worker.cache_config.kv_cache_memory_bytes is not None:
            self.settled = True
            return "not used: kv_cache_memory_bytes is set explicitly"
        self.identify(worker)
        try:
            kv_bytes, verdict = self.offer(worker)
        except Exception as error:
            kv_bytes, verdict = None, f"not applied: {_shown(error)}"
        if _joins(worker.parallel_config):
            kv_bytes, verdict = None, "not used: this rank joins ranks that measured long ago"
        elif _is_grouped(worker.parallel_config):
            kv_bytes, verdict = _agreed(kv_bytes, verdict)
        if kv_bytes is None:
            return verdict
        worker.cache_config.kv_cache_memory_bytes = kv_bytes
        self.settled = True
        return verdict

    def remark(self, worker: Any, verdict: str) -> str:
        """What an operator may do about a verdict, as a clause; "" if nothing (LOG-03)."""
        with contextlib.suppress(Exception):
            if "none found" in verdict:
                return _difference(self.path, self.about)
            free, total = worker.init_snapshot.free_memory, worker.init_snapshot.total_memory
            if self.baseline and (_whole(free) - self.baseline) * 20 > _whole(total):
                return f", measured with only {self.baseline} free; delete it to measure anew"
        return ""

    def offer(self, worker: Any) -> tuple[int | None, str]:
        """The value that may be applied at this boot, or None, and the reason."""
        if self.trouble:
            return None, f"not used: identity could not be determined ({self.trouble})"
        try:
            kv_bytes, baseline, weights = _decode(self.key, _read(self.path))
        except FileNotFoundError:
            return None, f"not applied: none found at {self.path}"
        except Exception as error:
            return None, f"not applied: {self.path} is unreadable ({_shown(error)})"
        free = _whole(worker.init_snapshot.free_memory)
        budget = _budget(worker)
        if free < baseline:
            return None, f"refused: {free} bytes are free, it was measured with {baseline}"
        if kv_bytes > min(baseline, free, budget):
            return None, f"refused: its {kv_bytes} bytes exceed the budget of {budget} bytes"
        if weights is not None and self.weights is not None and self.weights > weights:
            return None, f"refused: weights take {self.weights} bytes, they took {weights}"
        self.baseline = baseline
        return kv_bytes, f"applied: {kv_bytes} bytes of {free} free, from {self.path}"

    def store(self, worker: Any, value: Any) -> str:
        """Keep what this boot measured; say where, or why not."""
        if self.settled or worker.cache_config.kv_cache_memory_bytes is not None:
            return "not saved: this boot did not measure, a value was given or applied"
        if self.trouble:
            return f"not saved: identity could not be determined ({self.trouble})"
        try:
            kv_bytes = _graphs_once(worker, _whole(value))
            baseline = _whole(worker.init_snapshot.free_memory)
        except TypeError:
            return f"not saved: {_shown(value)} is no whole number of bytes"
        # What others give back while a boot measures was never there for its KV cache (BOOT-07).
        consumed = getattr(worker, "total_consumed", None)
        if consumed is not None and self.weights is not None and consumed < self.weights:
            return f"not saved: only {consumed} bytes seem taken, the weights take {self.weights}"
        budget = _budget(worker)
        if not 0 < kv_bytes <= min(baseline, budget) or baseline >= _WORD:
            return (
                f"not saved: {_shown(kv_bytes)} bytes make no sense with {_shown(baseline)} bytes "
                f"free and a budget of {budget} bytes"
            )
        # A measurement that forgot a pool leaves no room for what is known to be there (SAVE-13).
        if self.weights is not None and kv_bytes > budget - self.weights:
            return (
                f"not saved: {kv_bytes} bytes beside weights of {self.weights} bytes are more than "
                f"the budget of {budget} bytes"
            )
        try:
            _publish(self.path, _encode(self.key, kv_bytes, baseline, self.weights, self.about))
        except Exception as error:
            return f"not saved to {self.path}: {_shown(error)}"
        return f"saved: {kv_bytes} bytes, measured with {baseline} free, in {self.path}"


class _VoteError(RuntimeError):
    """A rank never came to vote, and will be missing in every collective to come."""


def _is_grouped(parallel: Any) -> bool:
    """Whether other ranks run collectives with this one while it profiles (GROUP-01).

    Data-parallel replicas do, unless the model is known to have no experts.
    """
    replicas = getattr(parallel, "data_parallel_size", 1)
    return bool(
        parallel.world_size > 1
        or (replicas > 1 and getattr(parallel, "is_moe_model", None) is not False)
    )


def _joins(parallel: Any) -> bool:
    """Whether the others run already, and neither vote nor measure again (GROUP-05)."""
    elastic = getattr(parallel, "enable_elastic_ep", False)
    return bool(elastic and getattr(envs, "VLLM_ELASTIC_EP_SCALE_UP_LAUNCH", False))


def _agreed(kv_bytes: int | None, verdict: str) -> tuple[int | None, str]:
    """What the group makes of this rank's offer: every rank has one, or none applies (GROUP-01).

    Every rank comes here, whatever its own look-up came to (GROUP-03).

    Raises:
        _VoteError: some rank did not come within five minutes.
    """
    group = _common_group()
    if group is None:
        return None, verdict if kv_bytes is None else "not applied: its ranks cannot vote"
    dist = torch.distributed
    patience = dt.timedelta(seconds=_PATIENCE_SECONDS)
    mine = torch.tensor(0 if kv_bytes is None else 1)
    everyone = [torch.tensor(-1) for _ in range(dist.get_world_size(group))]
    try:
        dist.all_gather(everyone, mine, group=group, async_op=True).wait(patience)
    except RuntimeError as error:
        raise _VoteError(f"startup plan: not every rank came to vote: {_shown(error)}") from error
    against = [str(rank) for rank, ballot in enumerate(everyone) if ballot.item() != 1]
    if kv_bytes is None or not against:
        return kv_bytes, verdict
    return None, f"not applied: outvoted by rank {', '.join(against)}, which has none to apply"


def _common_group() -> Any:
    """The engine's group of all ranks for data on the host; None where there is none."""
    try:
        from vllm.distributed.parallel_state import (  # noqa: PLC0415  # made after this module
            get_world_group,
        )

        return get_world_group().cpu_group
    except Exception:
        return None


def _graphs_once(worker: Any, suggestion: int) -> int:
    """The bytes to store: the worker subtracts CUDA graphs twice where it estimated them (BOOT-08).

    What this boot itself allocated is the limit. The worker of vLLM 0.26 does not keep what it has
    consumed, and its peak is without the graphs: it subtracts them once.
    """
    estimate = getattr(worker, "cudagraph_memory_estimate", 0)
    if not estimate or not getattr(envs, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", False):
        return suggestion
    try:
        spent = worker.total_consumed + worker.peak_activation_memory
        allocated = int(worker.available_kv_cache_memory_bytes)
    except AttributeError:
        return suggestion
    if spent + allocated != worker.requested_memory:
        return suggestion
    return max(suggestion, min(allocated, suggestion + int(estimate)))


def _budget(worker: Any) -> int:
    """What the engine may use of its device, as `request_memory` of vLLM computes it."""
    utilization = float(worker.cache_config.gpu_memory_utilization)
    return math.ceil(_whole(worker.init_snapshot.total_memory) * utilization)


def _enabled() -> bool:
    """Whether the operator asked for plans; a value that vLLM cannot parse asks for none."""
    try:
        return bool(envs.VLLM_ENABLE_STARTUP_PLAN)
    except Exception:
        return False


def _say(verdict: str) -> None:
    """Tell the operator in one line (LOG-01, LOG-02)."""
    with contextlib.suppress(Exception):
        logger.info("Startup plan %s.", verdict if verdict.isprintable() else ascii(verdict))


def maybe_apply_startup_plan(worker: Any) -> None:
    """Set `worker.cache_config.kv_cache_memory_bytes` from a plan that fits this boot, if any.

    Nothing happens unless `VLLM_ENABLE_STARTUP_PLAN` is set; it logs one line, and raises nothing
    unless a rank of its group never comes to vote.
    """
    if not _enabled():
        return
    boot = _Boot()
    try:
        setattr(worker, _SLOT, boot)
        verdict = boot.look_up(worker)
        verdict += boot.remark(worker, verdict)
    except _VoteError:
        raise
    except Exception as error:
        verdict = f"not applied: {_shown(error)}"
    _say(verdict)


def maybe_save_startup_plan(worker: Any, kv_cache_memory_bytes: Any) -> None:
    """Store what this boot measured, for the next one, under the key that this boot looked up.

    Nothing happens unless `VLLM_ENABLE_STARTUP_PLAN` is set; it raises nothing and logs one line.

    Args:
        worker: the worker that measured.
        kv_cache_memory_bytes: the bytes for the KV cache that reproduce its measurement.
    """
    if not _enabled():
        return
    try:
        boot = getattr(worker, _SLOT, None)
        if not isinstance(boot, _Boot):
            boot = _Boot()
            boot.identify(worker)
        verdict = boot.store(worker, kv_cache_memory_bytes)
    except Exception as error:
        verdict = f"not saved: {_shown(error)}"
    _say(verdict)
