# SPDX-License-Identifier: Apache-2.0
"""Which settings are factors of the key: all of them, less a reviewed list.

Default in: a field that nobody has thought about costs one profiling run; a field that is missing
costs an out-of-memory error (KEY-10). A name stands below only because someone read what
vLLM does with it and found that it takes no device memory, or that it differs between processes
that are otherwise equal (KEY-13, KEY-14). Reviewed on vLLM 0.33.0. When unsure, do not add.
"""

from __future__ import annotations

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
        "names, addresses and what happens once requests are served": """
            enable_permute_local_kv engine_id kv_load_failure_policy kv_port
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

_FIELDS_OUT: Final = {
    owner: frozenset(" ".join(names.values()).split()) for owner, names in EXCLUDED_FIELDS.items()
}


def excluded_fields(owner: str) -> frozenset[str]:
    """Names of those fields of the configuration class called `owner` that are no factors."""
    return _FIELDS_OUT.get(owner, frozenset())
