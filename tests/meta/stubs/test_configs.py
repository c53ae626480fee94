# SPDX-License-Identifier: Apache-2.0
"""The stub configs look, hash and copy as the world and its subjects expect of vLLM's."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import pathlib
import pickle
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.coercion import RefusedValueError
from startup_plan.harness.stubs.configs import (
    config_classes,
    get_setting,
    make_config,
    set_setting,
)
from startup_plan.harness.stubs.settings import ROWS, SETTINGS, Setting
from startup_plan.harness.stubs.values import PretrainedConfig, QuantizationConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CASES: Final = [(setting, value) for setting in SETTINGS for value in setting.alternates]
MULTIMODAL: Final = "model_config.multimodal_config."
WITHOUT_HASH: Final = {
    "AudioDummyOptions",
    "DiffusionConfig",
    "EPLBConfig",
    "EncoderCacheManagerConfig",
    "FaultToleranceConfig",
    "HiSparseConfig",
    "ImageDummyOptions",
    "KVEventsConfig",
    "LoggingConfig",
    "MambaConfig",
    "ModelArchitectureConfig",
    "PrefetchOffloadConfig",
    "QuantizationConfigArgs",
    "ReasoningConfig",
    "UVAOffloadConfig",
    "VideoDummyOptions",
    "WatchdogConfig",
    "WatermarkConfig",
    "WeightTransferConfig",
}
"""Classes without `compute_hash()` in vLLM 0.33.0: a subject cannot lean on one here either."""


def _hash(overrides: Mapping[str, object] | None = None) -> str:
    found: str = make_config(overrides).compute_hash()
    return found


def _mutable(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every object below `value` that could be changed in place, with a name for it."""
    if isinstance(value, (list, dict, set)) or hasattr(value, "__dict__"):
        if isinstance(value, (enum.Enum, pathlib.PurePath)):
            return
        yield path, value
        inner = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        for key, item in inner.items():
            yield from _mutable(item, f"{path}.{key}")
        for item in value if isinstance(value, list) else ():
            yield from _mutable(item, f"{path}[]")


def test_classes_have_the_audited_fields_in_order() -> None:
    """Every stub is a dataclass with exactly the audited fields of its class, in vLLM's order."""
    audited: dict[str, dict[str, None]] = collections.defaultdict(dict)
    for row in ROWS:
        audited[row["owner"]][row["path"].rpartition(".")[2]] = None
    made = {name: [f.name for f in dataclasses.fields(c)] for name, c in config_classes().items()}

    assert made == {owner: list(names) for owner, names in audited.items()}
    assert stub_configs.VllmConfig is config_classes()["VllmConfig"]


def test_compute_hash_is_where_vllm_has_it() -> None:
    """Exactly the classes that have a `compute_hash()` in vLLM have one here."""
    without = {name for name, cls in config_classes().items() if not hasattr(cls, "compute_hash")}

    assert without == WITHOUT_HASH


def test_make_config_holds_every_default() -> None:
    """A new config has each setting at its default, and no alternate equals the default."""
    config = make_config()
    wrong = [s.path for s in SETTINGS if get_setting(config, s.path) != s.default]
    idle = [(s.path, value) for s, value in CASES if value == s.default]

    assert (wrong, idle) == ([], [])


def test_every_setting_can_be_set_and_read_back() -> None:
    """What is set as JSON is read back as the same JSON, whatever type the config holds."""
    wrong = [
        (setting.path, value)
        for setting, value in CASES
        if get_setting(make_config({setting.path: value}), setting.path) != value
    ]

    assert wrong == []


def test_alternates_move_the_hash_exactly_where_the_table_says_so() -> None:
    """Going from a default to an alternate moves `compute_hash()` if and only if it is hashed."""
    usual = _hash()
    offenders = [
        (setting.path, value, setting.kind)
        for setting, value in CASES
        if (_hash({setting.path: value}) != usual) is not setting.hashed
    ]

    assert (offenders, len(usual), int(usual, 16) >= 0) == ([], 10, True)


def test_alternates_of_one_hashed_setting_have_different_hashes() -> None:
    """Two alternates of one hashed setting do not share a hash."""
    shared = []
    for setting in SETTINGS:
        if setting.hashed:
            hashes = [_hash({setting.path: value}) for value in setting.alternates]
            shared += [setting.path] if len(set(hashes)) < len(hashes) else []

    assert shared == []


def test_hash_tells_types_apart() -> None:
    """1, "1", 1.0, True and None in a mapping that is hashed are five different hashes."""
    hashes = {_hash({"additional_config": {"a": value}}) for value in (1, "1", 1.0, True, None)}

    assert len(hashes) == 5


CONSTRUCTED: Final[tuple[tuple[str, Any, Any], ...]] = (
    ("cache_config.gpu_memory_utilization", 1, 1.0),
    ("cache_config.gpu_memory_utilization", "0.90", 0.9),
    ("scheduler_config.max_num_seqs", "8", 8),
    ("scheduler_config.max_num_seqs", 8.0, 8),
    ("scheduler_config.max_num_seqs", True, 1),
    ("scheduler_config.max_num_seqs", "9007199254740993", 9007199254740993),
    ("cache_config.swa_bounded_replay", 0, False),
    ("cache_config.swa_bounded_replay", "No", False),
    ("cache_config.num_gpu_blocks", None, None),
    ("model_config.hf_token", "1", "1"),
    ("model_config.hf_token", 1, True),
    ("compilation_config.compile_ranges_endpoints", ("1", 2.0), [1, 2]),
    ("load_config.model_loader_extra_config", {"knob": 1}, {"knob": 1}),
)
"""Where, what it is constructed with, and what it then holds."""


@pytest.mark.parametrize(("path", "given", "held"), CONSTRUCTED, ids=repr)
def test_what_a_config_is_constructed_with_is_coerced(path: str, given: Any, held: Any) -> None:
    """A class makes of a value what vLLM's makes of it, alone and as part of an engine."""
    owner, field = stub_configs.setting(path).owner, path.rpartition(".")[2]
    alone = getattr(config_classes()[owner](**{field: given}), field)
    part = get_setting(make_config({path: given}), path)

    assert [repr(value) for value in (alone, part, stub_configs.taken_by(path, given))] == [
        repr(held)
    ] * 3


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("cache_config.gpu_memory_utilization", "much"),
        ("scheduler_config.max_num_seqs", 8.5),
        ("scheduler_config.max_num_seqs", None),
        ("cache_config.swa_bounded_replay", 2),
        ("model_config.revision", 1),
        ("compilation_config.compile_ranges_endpoints", "1"),
    ],
)
def test_what_no_config_can_be_constructed_with_is_refused(path: str, given: Any) -> None:
    """A value that vLLM refuses is refused, in a sentence that names it."""
    owner, field = stub_configs.setting(path).owner, path.rpartition(".")[2]

    with pytest.raises(RefusedValueError, match=re.escape(repr(given))):
        make_config({path: given})
    with pytest.raises(RefusedValueError, match=re.escape(repr(given))):
        config_classes()[owner](**{field: given})


def test_what_is_assigned_later_stays_as_it_is() -> None:
    """As in vLLM, only construction coerces: an assignment of 1 leaves 1."""
    config = make_config()
    config.cache_config.gpu_memory_utilization = 1

    assert repr(config.cache_config.gpu_memory_utilization) == "1"


def test_encoder_settings_are_hashed_only_while_the_encoder_is_compiled() -> None:
    """The five encoder fields enter the hash with `compile_mm_encoder` and not otherwise."""
    cases = [(s, value) for s, value in CASES if s.kind == "compile_mm_encoder"]
    compiled = {"compilation_config.compile_mm_encoder": True}
    moved = {
        setting.field
        for setting, value in cases
        if _hash({**compiled, setting.path: value}) != _hash(compiled)
    }

    assert (moved, len(moved)) == ({setting.field for setting, _ in cases}, 5)


def test_partly_hashed_settings_follow_their_rule() -> None:
    """Video pruning counts as on or off, the method by its hidden states, dspark by adaptivity."""
    usual = _hash()
    method, adaptive = (
        "speculative_config.method",
        "speculative_config.enable_adaptive_verification",
    )
    dspark = _hash({method: "dspark"})

    assert _hash({f"{MULTIMODAL}video_pruning_rate": None}) != usual
    assert _hash({f"{MULTIMODAL}video_pruning_rate": 0.0}) != usual
    assert _hash({method: "eagle3"}) != usual
    assert _hash({method: "eagle3"}) == _hash({method: "dflash"})
    assert _hash({method: "dspark", adaptive: True}) != dspark


def test_order_does_not_enter_the_hash() -> None:
    """Neither the order of a dict nor that of LoRA target modules moves the hash."""
    path, modules = "additional_config", "lora_config.target_modules"
    first, second = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}

    assert _hash({path: first}) == _hash({path: second})
    assert _hash({modules: ["q_proj", "k_proj"]}) == _hash({modules: ["k_proj", "q_proj"]})
    assert _hash({"compilation_config.custom_ops": ["a", "b"]}) != _hash(
        {"compilation_config.custom_ops": ["b", "a"]}
    )


def test_version_override_and_salt_vary_the_hash_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash follows the version hook, a salt and an override, none of which is a field."""
    config, usual = make_config(), _hash()
    config._hash_salt = "salt"
    salted = config.compute_hash()
    config._hash_override = "0123456789"
    overridden = config.compute_hash()
    monkeypatch.setattr(stub_configs, "version_of", lambda: "0.34.0")
    upgraded = _hash()
    plain = make_config().compute_hash(include_version=False)

    assert len({usual, salted, overridden, upgraded, plain}) == 5
    assert (overridden, salted != usual, config == make_config()) == ("0123456789", True, True)
    assert copy.deepcopy(config).compute_hash() == "0123456789"


def test_configs_share_nothing_that_can_change() -> None:
    """No list, dict, set or object of one config is part of another one."""
    one, two = make_config(), make_config()
    mine = {id(value): path for path, value in _mutable(one, "config")}
    shared = [mine[id(value)] for _, value in _mutable(two, "config") if id(value) in mine]

    assert (one == two, shared, len(mine) > 70) == (True, [], True)


def test_changing_one_config_leaves_the_next_alone() -> None:
    """Changes in place, deep down, reach neither the prototype nor the table."""
    defaults = copy.deepcopy([setting.default for setting in SETTINGS])
    config = make_config({"additional_config": {"a": {"b": 1}}})
    config.additional_config["a"]["b"] = 2
    config.compilation_config.cudagraph_capture_sizes.append(64)
    config.model_config.hf_config.architectures.append("Other")
    config.model_config.multimodal_config.limit_per_prompt["image"].width = 8
    config.compilation_config.traced_files.add("model.py")
    config.speculative_config.draft_model_config.hf_config.num_hidden_layers = 9
    del config.model_config.multimodal_config.limit_per_prompt["audio"]

    assert make_config().compute_hash() == _hash()
    assert [setting.default for setting in SETTINGS] == defaults
    assert [get_setting(make_config(), setting.path) for setting in SETTINGS] == defaults


def test_a_value_given_to_a_config_stays_the_callers() -> None:
    """A container that was set is copied: changing it afterwards does not reach the config."""
    value: dict[str, Any] = {"a": [1]}
    config = make_config({"additional_config": value})
    value["a"].append(2)

    assert get_setting(config, "additional_config") == {"a": [1]}


def test_target_configs_are_names_for_the_configs_own_parts() -> None:
    """As in vLLM, the speculative target is the very model and parallel config of the engine."""
    for config in (
        make_config(),
        copy.deepcopy(make_config()),
        make_config({"speculative_config": {}}),
        make_config({"model_config.seed": 7}),
    ):
        target = config.speculative_config

        assert target.target_model_config is config.model_config
        assert target.target_parallel_config is config.parallel_config


def test_copies_by_any_means_are_equal_and_hash_alike() -> None:
    """Deepcopy and pickle (as to a worker process) keep every value and the hash."""
    config = make_config({setting.path: setting.alternates[0] for setting in _leaves()})
    copies = [copy.deepcopy(config), pickle.loads(pickle.dumps(config))]  # noqa: S301

    assert [made == config for made in copies] == [True] * 2
    assert {made.compute_hash() for made in copies} == {config.compute_hash()}
    assert [made == make_config() for made in copies] == [False] * 2


def _leaves() -> Iterator[Setting]:
    return (setting for setting in SETTINGS if None not in setting.alternates)


def test_fields_have_the_types_that_vllm_gives_them() -> None:
    """Inside a config are enum members, sets, counters and opaque objects, not their JSON."""
    config = make_config()
    compilation = config.compilation_config

    assert compilation.mode is stub_configs.CompilationMode.VLLM_COMPILE
    assert compilation.cudagraph_mode is stub_configs.CUDAGraphMode.FULL_AND_PIECEWISE
    assert (int(compilation.mode), compilation.cudagraph_mode.value) == (3, (2, 1))
    assert (type(compilation.traced_files), type(compilation.enabled_custom_ops)) == (
        set,
        collections.Counter,
    )
    assert isinstance(config.model_config.hf_config, PretrainedConfig)
    assert isinstance(config.quant_config, QuantizationConfig)
    assert not dataclasses.is_dataclass(config.quant_config)


def test_a_model_with_experts_is_a_mixture_of_experts() -> None:
    """`ModelConfig.is_moe` follows the Hugging Face config, as in vLLM, and is no field."""
    path = "model_config.hf_config"
    sparse = {**stub_configs.setting(path).default, "num_experts": 128}

    assert make_config().model_config.is_moe is False
    assert make_config({path: sparse}).model_config.is_moe is True


def test_optional_parts_are_absent_by_vllms_own_default() -> None:
    """The bare class leaves optional parts out; `make_config` fills each of them in."""
    optional = [row for row in ROWS if "part" in row and "default" in row]
    classes = config_classes()
    bare = {
        row["path"]: getattr(classes[row["owner"]](), row["path"].rpartition(".")[2])
        for row in optional
    }
    filled = [row["path"] for row in optional if get_setting(make_config(), row["path"]) is None]

    assert (set(bare.values()), filled, len(bare)) == ({None}, [], 17)


def test_paths_that_lead_nowhere_are_refused() -> None:
    """Unknown fields and members raise, and so does what lies in a part that is None."""
    config = make_config({"lora_config": None})

    with pytest.raises(AttributeError, match="has no field max_lora"):
        set_setting(make_config(), "lora_config.max_lora", 2)
    with pytest.raises(AttributeError, match="no such part"):
        set_setting(config, "lora_config.max_loras", 2)
    with pytest.raises(AttributeError, match="no such part"):
        get_setting(config, "lora_config.max_loras")
    with pytest.raises(KeyError):
        set_setting(config, "compilation_config.mode", "NONSENSE")
    with pytest.raises(AttributeError, match="NoSuchConfig"):
        _ = stub_configs.NoSuchConfig
