# SPDX-License-Identifier: Apache-2.0
"""Which settings and variables are factors of the key: all of them, less a reviewed list.

Default in: a field that nobody has thought about costs one profiling run; a field that is missing
costs an out-of-memory error (KEY-10, KEY-11). A name stands below only because someone read what
vLLM does with it and found that it takes no device memory, or that it differs between processes
that are otherwise equal (KEY-13, KEY-14). Reviewed on vLLM 0.33.0. When unsure, do not add.
"""

from __future__ import annotations

import re
from typing import Final

EXCLUDED_FIELDS: Final[dict[str, dict[str, str]]] = {
    "CacheConfig": {
        "factors of their own, in a form that does not depend on how they were written": """
            gpu_memory_utilization
        """,
        "the value that a plan provides; where it is set, there is no plan": """
            kv_cache_memory_bytes
        """,
        "results that the boot itself writes, and how the cache is cut up and looked up": """
            _block_size_resolved effective_attention_block_size kv_cache_max_concurrency
            kv_cache_size_tokens num_cpu_blocks num_gpu_blocks simple_cpu_offload_num_blocks
            user_specified_block_size cache_hit_alignment_tokens hash_block_size
            is_attention_free enable_mamba_shared_prefix_checkpoint
            prefix_cache_retention_interval prefix_caching_hash_algo prefix_match_unit
            num_gpu_blocks_override enable_prefix_caching mamba_page_size_padded
            skip_page_size_padded
        """,
    },
    "ModelConfig": {
        "read in full by compute_hash(), or derived from what it reads": """
            hf_config hf_text_config model_arch_config spec_target_max_model_len
        """,
        "tokenizer, front end, names and seeds": """
            allowed_local_media_path allowed_media_domains config_format hf_token
            io_processor_plugin served_model_name skip_tokenizer_init tokenizer tokenizer_mode
            tokenizer_revision seed
        """,
        "host buffers, or no effect any more": "enable_trace_replay disable_cascade_attn",
    },
    "VllmConfig": {
        "identity of one engine, unequal at every start": "instance_id",
        "logs, metrics, events, watchdogs and shutdown happen on the host": """
            observability_config logging_config kv_events_config watchdog_config
            shutdown_timeout
        """,
        "scheduler-side bookkeeping, grammars and presets that act through other fields": """
            ec_manager_config structured_outputs_config optimization_level performance_mode
        """,
    },
    "PoolerConfig": {
        "small arithmetic on the pooled output, and limits of the front end": """
            dimensions logit_mean logit_sigma returned_token_ids step_tag_id use_activation
            enable_chunked_processing max_embed_len
        """,
    },
    "MultiModalConfig": {
        "media decoding, host caches, transport and calibration files": """
            media_io_kwargs mm_ipc_gpu_memory_gb mm_hasher_algorithm mm_processor_cache_gb
            mm_processor_cache_type mm_shm_cache_max_object_size_mb
            mm_encoder_fp8_scale_save_margin mm_encoder_fp8_scale_save_path
            interleave_mm_strings mm_tensor_ipc allow_missing_mm_embeddings
        """,
    },
    "ParallelConfig": {
        "addresses, ports, launch order and placement on the host": """
            _coord_store_port _data_parallel_master_port_list data_parallel_external_lb
            data_parallel_hybrid_lb data_parallel_master_ip data_parallel_master_port
            data_parallel_rpc_port master_addr master_port node_rank rank placement_group
            max_parallel_loading_workers _api_process_rank _api_process_count
            enable_shm_tensor_arena numa_bind numa_bind_cpus numa_bind_nodes ray_runtime_env
            ray_workers_use_nsight
        """,
    },
    "SchedulerConfig": {
        "admission and order of requests": """
            is_multimodal_model runner_type long_prefill_token_threshold
            long_prefill_token_threshold_adaptive max_num_active_seqs max_num_queued_reqs
            max_num_queued_tokens max_num_scheduled_tokens policy prefill_schedule_interval
            scheduler_cls scheduler_reserve_full_isl stream_interval watermark
            disable_chunked_mm_input disable_hybrid_kv_cache_manager async_scheduling
        """,
    },
    "DeviceConfig": {
        "the device is a factor of its own": "device device_type",
    },
    "LoadConfig": {
        "how files are read": """
            download_dir ignore_patterns pt_load_map_location safetensors_load_strategy
            safetensors_prefetch_block_size safetensors_prefetch_num_threads use_tqdm_on_load
        """,
    },
    "AuxOutputConfig": {
        "an object store on the host": "max_bytes",
    },
    "MambaConfig": {
        "scalar options of one kernel": """
            enable_stochastic_rounding ssu_algorithm stochastic_rounding_philox_rounds
        """,
    },
    "LoRAConfig": {
        "a cache on the host, and routing": "max_cpu_loras default_mm_loras",
    },
    "SpeculativeConfig": {
        "aliases of other sections, host-side search, scalars": """
            target_model_config target_parallel_config tensor_parallel_size
            disable_eagle_block_drop disable_lookahead_block_hashes
            suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor
            suffix_decoding_max_tree_depth suffix_decoding_min_token_prob fly_entropy_threshold
            synthetic_acceptance_length synthetic_acceptance_rates
        """,
    },
    "WatermarkConfig": {
        "keys and probabilities": "allow_target_only_watermarking alpha key prf",
    },
    "DiffusionConfig": {
        "a number of repetitions": "max_denoising_steps",
    },
    "CompilationConfig": {
        "paths, counters and objects that compilation leaves behind": """
            cache_dir compilation_time debug_dump_path disabled_custom_ops enabled_custom_ops
            encoder_compilation_time local_cache_dir static_forward_context traced_files
            static_all_moe_layers
        """,
    },
    "ProfilerConfig": {
        "profiling that a request starts later": """
            active_iterations delay_iterations detailed_trace_annotation ignore_frontend
            max_iterations proton_backend proton_context proton_data proton_hook proton_mode
            proton_output_format proton_profiler_dir torch_profiler_activities
            torch_profiler_dir torch_profiler_dump_cuda_time_total torch_profiler_record_shapes
            torch_profiler_use_gzip torch_profiler_with_flops torch_profiler_with_memory
            torch_profiler_with_stack wait_iterations warmup_iterations
        """,
    },
    "KVTransferConfig": {
        "connectors allocate after the measurement or on the host": """
            enable_permute_local_kv engine_id kv_buffer_device kv_connector
            kv_connector_extra_config kv_connector_module_path kv_load_failure_policy kv_port
        """,
    },
    "ECTransferConfig": {
        "addresses, and widths derived from the model": """
            ec_ip ec_port engine_id mm_encoder_output_widths
        """,
    },
    "ReasoningConfig": {
        "token ids; that the section is there at all stays a factor": """
            _enabled _natural_reasoning_end_token_ids _reasoning_end_token_ids
            _reasoning_start_token_ids reasoning_end_str reasoning_parser reasoning_start_str
        """,
    },
}
"""Configuration class -> reason -> names, wherever in the configuration the class stands."""

EXCLUDED_VARIABLES: Final[dict[str, str]] = {
    "builds of vLLM, and what an image is called": """
        VLLM_TARGET_DEVICE VLLM_MAIN_CUDA_VERSION MAX_JOBS NVCC_THREADS VLLM_USE_PRECOMPILED
        VLLM_USE_PRECOMPILED_RUST VLLM_SKIP_PRECOMPILED_VERSION_SUFFIX VLLM_DOCKER_BUILD_CONTEXT
        VLLM_BUILD_COMMIT VLLM_BUILD_PIPELINE VLLM_BUILD_URL VLLM_IMAGE_TAG CMAKE_BUILD_TYPE
        VERBOSE VLLM_SKIP_VERSION_SUFFIX VLLM_NCCL_INCLUDE_PATH
    """,
    "where things are stored": """
        VLLM_CONFIG_ROOT VLLM_CACHE_ROOT VLLM_ASSETS_CACHE VLLM_ASSETS_CACHE_MODEL_CLEAN
        VLLM_XLA_CACHE_PATH VLLM_LORA_RESOLVER_CACHE_DIR VLLM_LORA_RESOLVER_HF_REPO_LIST
        VLLM_MODEL_REDIRECT_PATH VLLM_DEBUG_DUMP_PATH VLLM_RUST_FRONTEND_PATH
        VLLM_USE_MODELSCOPE VLLM_RPC_BASE_PATH VLLM_COMPILE_CACHE_SAVE_FORMAT
        TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR TRITON_HOME TRITON_DUMP_DIR TRITON_OVERRIDE_DIR
        TORCH_HOME TORCH_EXTENSIONS_DIR CUDA_CACHE_PATH FLASHINFER_WORKSPACE_BASE
        FLASHINFER_CUBIN_DIR
    """,
    "addresses, ports, ids and credentials": """
        VLLM_HOST_IP VLLM_PORT VLLM_DP_MASTER_IP VLLM_DP_MASTER_PORT VLLM_LOOPBACK_IP
        VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT VLLM_P2P_SIDE_CHANNEL_HOST
        VLLM_P2P_SIDE_CHANNEL_PORT VLLM_P2P_MAX_PEERS VLLM_P2P_HANDSHAKE_TIMEOUT_S
        VLLM_P2P_IDLE_TIMEOUT_S VLLM_EC_SIDE_CHANNEL_HOST VLLM_EC_SIDE_CHANNEL_PORT
        VLLM_MOONCAKE_CONNECTOR_TIMEOUT VLLM_MOONCAKE_BOOTSTRAP_PORT
        VLLM_MOONCAKE_STORE_TIER_LOG VLLM_MOONCAKE_LOAD_RECV_THREADS
        VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT
        MOONCAKE_PREFERRED_SEGMENT MOONCAKE_REQUESTER_LOCAL_HOSTNAME VLLM_API_KEY
        S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY S3_ENDPOINT_URL VLLM_PROCESS_NAME_PREFIX
        VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME VLLM_GPU_NIC_PCIE_MAPPING VLLM_NIC_SELECTION_VARS
        LOCAL_RANK TORCHELASTIC_RUN_ID VLLM_DIST_IDENT
    """,
    "which of several devices; the identity of the worker's own device is a factor": """
        CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES
    """,
    "logs, metrics, traces and debugging aids": """
        VLLM_USAGE_STATS_SERVER VLLM_NO_USAGE_STATS VLLM_DO_NOT_TRACK VLLM_USAGE_SOURCE
        VLLM_CONFIGURE_LOGGING VLLM_LOGGING_CONFIG_PATH VLLM_LOGGING_LEVEL VLLM_LOGGING_STREAM
        VLLM_LOGGING_PREFIX VLLM_LOGGING_COLOR NO_COLOR FORCE_COLOR VLLM_LOG_STATS_INTERVAL
        VLLM_TRACE_FUNCTION VLLM_DEBUG_LOG_API_SERVER_RESPONSE VLLM_LOG_BATCHSIZE_INTERVAL
        VLLM_CUSTOM_SCOPES_FOR_PROFILING VLLM_NVTX_SCOPES_FOR_PROFILING VLLM_GC_DEBUG
        VLLM_DEBUG_WORKSPACE VLLM_LOG_MODEL_INSPECTION VLLM_DEBUG_MFU_METRICS
        VLLM_DISABLE_LOG_LOGO VLLM_REQUEST_BODY_LOG_LEVEL VLLM_PATTERN_MATCH_DEBUG
        VLLM_GPU_SYNC_CHECK VLLM_RINGBUFFER_WARNING_INTERVAL NCCL_DEBUG NCCL_DEBUG_FILE
        NCCL_DEBUG_SUBSYS TORCH_LOGS TORCH_CPP_LOG_LEVEL TORCH_SHOW_CPP_STACKTRACES
    """,
    "front end, requests and media": """
        VLLM_USE_FASTOKENS VLLM_ENGINE_READY_TIMEOUT_S VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT
        VLLM_CHAT_TEMPLATE_FUEL VLLM_IMAGE_FETCH_TIMEOUT VLLM_VIDEO_FETCH_TIMEOUT
        VLLM_AUDIO_FETCH_TIMEOUT VLLM_MEDIA_CACHE VLLM_MEDIA_CACHE_MAX_SIZE_MB
        VLLM_MEDIA_CACHE_TTL_HOURS VLLM_MEDIA_FETCH_MAX_RETRIES VLLM_MAX_MEDIA_DOWNLOAD_SIZE_MB
        VLLM_MEDIA_URL_ALLOW_REDIRECTS VLLM_MEDIA_LOADING_THREAD_COUNT
        VLLM_MAX_AUDIO_CLIP_FILESIZE_MB VLLM_MAX_AUDIO_DECODE_DURATION_S
        VLLM_MAX_AUDIO_DECODE_BYTES VLLM_MAX_EMBED_DECODE_BYTES
        VLLM_MAX_AUDIO_PREPROCESS_WORKERS VLLM_MAX_IMAGE_PIXELS
        VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES VLLM_MAX_MEDIA_REQUEST_DOWNLOAD_SIZE_MB
        VLLM_VIDEO_LOADER_BACKEND VLLM_MEDIA_CONNECTOR VLLM_HTTP_TIMEOUT_KEEP_ALIVE
        VLLM_HTTP_MAX_REQUEST_BODY_SIZE VLLM_MAX_N_SEQUENCES VLLM_MAX_COMPLETION_PROMPTS
        VLLM_MAX_STOP_STRINGS VLLM_MAX_NUM_BAD_WORDS VLLM_MAX_BAD_WORDS_TOTAL_TOKENS
        VLLM_V1_OUTPUT_PROC_CHUNK_SIZE VLLM_V1_USE_OUTLINES_CACHE VLLM_XGRAMMAR_CACHE_MB
        VLLM_REGEX_COMPILATION_TIMEOUT_S VLLM_DISABLE_REQUEST_ID_RANDOMIZATION
        VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS VLLM_ENFORCE_STRICT_TOOL_CALLING
        VLLM_BEAM_ALWAYS_CONSTRAIN_OUTPUT VLLM_ENABLE_RESPONSES_API_STORE VLLM_ENABLE_COHERE_API
        VLLM_USE_EXPERIMENTAL_PARSER_CONTEXT VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS
        VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS VLLM_SYSTEM_START_DATE
        VLLM_TOOL_JSON_ERROR_AUTOMATIC_RETRY VLLM_USE_RUST_FRONTEND VLLM_USE_RUST_BENCH
        VLLM_SERVER_DEV_MODE VLLM_SKIP_MODEL_NAME_VALIDATION VLLM_ALLOW_LONG_MAX_MODEL_LEN
        VLLM_ALLOW_RUNTIME_LORA_UPDATING VLLM_KEEP_ALIVE_ON_ENGINE_DEATH
    """,
    "processes, messages and schedulers on the host": """
        VLLM_WORKER_MULTIPROC_METHOD VLLM_ENABLE_V1_MULTIPROCESSING
        VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS
        VLLM_MQ_MAX_CHUNK_BYTES_MB VLLM_MSGPACK_ZERO_COPY_THRESHOLD
        VLLM_ALLOW_INSECURE_SERIALIZATION VLLM_USE_SPINLOOP_EXT VLLM_RAY_PER_WORKER_GPUS
        VLLM_RAY_BUNDLE_INDICES VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY
        VLLM_RAY_EXTRA_ENV_VARS_TO_COPY VLLM_TRITON_JIT_WARMUP_NUM_THREADS
        VLLM_FASTSAFETENSORS_QUEUE_SIZE VLLM_TEST_FORCE_LOAD_FORMAT
        VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES VLLM_KV_OFFLOAD_MAX_BATCH_DESCRIPTORS
        VLLM_USE_SIMPLE_KV_OFFLOAD VLLM_ELASTIC_EP_SCALE_UP_LAUNCH
        VLLM_ELASTIC_EP_DRAIN_REQUESTS VLLM_ENABLE_STARTUP_PLAN
        VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN VLLM_LORA_DISABLE_PDL
        VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE VLLM_USE_OINK_OPS
        VLLM_KV_CACHE_LAYOUT VLLM_SSM_CONV_STATE_LAYOUT VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT
    """,
    "other platforms than the one that keeps plans": """
        VLLM_CPU_KVCACHE_SPACE VLLM_CPU_OMP_THREADS_BIND VLLM_CPU_NUM_OF_RESERVED_CPU
        VLLM_CPU_CI_ENV VLLM_CPU_ATTN_SPLIT_KV VLLM_ZENTORCH_WEIGHT_PREPACK VLLM_CPU_INT4_W4A8
        VLLM_XLA_CHECK_RECOMPILATION VLLM_XLA_USE_SPMD VLLM_TPU_USING_PATHWAYS
    """,
}
"""Reason -> names of environment variables."""

_PREFIXES: Final = (
    "VLLM_", "PYTORCH_", "TORCH", "CUDA_", "CUBLAS", "CUDNN_", "NCCL_", "NVSHMEM_", "NVIDIA_TF32",
    "HIP_", "HSA_", "ROCR_", "ROCM_", "RCCL_", "GPU_", "MIOPEN_", "AITER_", "HCCL_", "ASCEND_",
    "CCL_", "ZE_", "SYCL_", "TRITON_", "FLASHINFER_", "DEEP_GEMM_", "DG_", "DEEPEP_", "MORI_",
    "UCX_", "MC_", "GLOO_", "XLA_", "LIBTPU_", "TPU_",
)  # fmt: skip

_REGISTERED_ELSEWHERE: Final = frozenset({"CUDA_HOME", "LD_LIBRARY_PATH", "LD_PRELOAD"})

# An orchestrator that finds a service called "vllm…" writes its addresses into every pod.
_SERVICE_LINK: Final = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")

_VARIABLES_OUT: Final = frozenset(" ".join(EXCLUDED_VARIABLES.values()).split())
_FIELDS_OUT: Final = {
    owner: frozenset(" ".join(names.values()).split()) for owner, names in EXCLUDED_FIELDS.items()
}


def excluded_fields(owner: str) -> frozenset[str]:
    """Names of those fields of the configuration class called `owner` that are no factors."""
    return _FIELDS_OUT.get(owner, frozenset())


def variable_counts(name: str) -> bool:
    """Whether environment variable `name`, where it is set, is a factor of the key.

    Any name of a family that vLLM, the allocator, the compiler or a communicator reads counts,
    whether vLLM registers it or not: many are read directly where they are used.
    """
    return (
        (name.startswith(_PREFIXES) or name in _REGISTERED_ELSEWHERE)
        and name not in _VARIABLES_OUT
        and not _SERVICE_LINK.fullmatch(name)
    )
