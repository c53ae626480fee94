# SPDX-License-Identifier: Apache-2.0
"""No two sets of factors share a key by the way in which they are written down (KEY-12).

Each test first sees whether the subject tells clearly different values of an input apart. One that
does not see an input at all breaks the requirement about that input, not this one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs.state import Runtime
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_CLEAR: Final = ("zzz", "yyy")
_ALIKE: Final[Mapping[str, tuple[Any, ...]]] = {
    "scalars": (1, "1", 1.0, "1.0", True, "True", "true"),
    "zeros": (0, "0", 0.0, False, "False", "false"),
    "nothings": (None, "", "None", "null", "nan"),
    "lists": ([1, 2], ["1, 2"], [[1, 2]], "[1, 2]", ["1", "2"], [12], ["12"], [1, [2]]),
    "empties": ([], {}, "[]", "{}", [[]], [None], [""], {"": None}, ""),
    "mappings": ({"a": 1}, '{"a": 1}', "{'a': 1}", ["a", 1], [["a", 1]], [{"a": 1}], "a=1"),
}
"""Values that one careless way of writing or another makes equal, and that are not."""

_CARRIERS: Final[Mapping[str, str]] = {
    "load_config.model_loader_extra_config": "mapping",
    "model_config.multimodal_config.mm_processor_kwargs": "mapping",
    "model_config.logits_processors": "texts",
    "model_config.multimodal_config.mm_encoder_fp8_scale_path": "text",
    "speculative_config.kv_cache_dtype": "text",
}
"""Settings that take memory and are open to any value of one kind; the config hash reads none."""

_WRAPPED: Final[Mapping[str, Callable[[str], Any]]] = {
    "mapping": lambda text: {"knob": text},
    "texts": lambda text: [text],
    "text": str,
}
"""Kind of a setting -> how it holds a text."""

_NEIGHBOURS: Final = (
    ("model_config.hf_config_path", "model_config.revision"),
    ("model_config.revision", "model_config.code_revision"),
    ("model_config.code_revision", "model_config.quantization"),
    ("speculative_config.quantization", "speculative_config.kv_cache_dtype"),
    ("speculative_config.revision", "speculative_config.code_revision"),
)
"""Pairs of settings that stand side by side in their class and may hold any text."""

_SEPARATORS: Final = ("", ",", "|", ":", "\n", " ", "-", "/", ";", "_", "\0", '", "', "', '")


def _with(settings: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Engine:
    engine = Engine()
    engine.hash_override = keys.SAME_HASH
    for path, value in settings.items():
        engine.set(path, value)
    for name, text in (environ or {}).items():
        engine.setenv(name, text)
    return engine


def _carried(kind: str, alike: str) -> list[Any]:
    """Those values that look alike which a setting of this kind can hold, as it holds them."""
    values = _ALIKE[alike]
    if kind == "mapping":
        return [{"knob": value} for value in values]
    if kind == "texts":
        return [None, [], *([value] for value in values if type(value) is str)]
    return [value for value in values if value is None or type(value) is str]


def _judge(found: Sequence[tuple[str, str]], what: str) -> None:
    same = keys.twins(found)
    if same is not None:
        first, second, key = same
        raise Violation("KEY-12", f"{what}: {first} and {second} share plan {key}")


@pytest.mark.requirement("KEY-12")
@pytest.mark.parametrize("alike", list(_ALIKE))
def test_values_that_look_alike_stay_apart(world: World, tally: Tally, alike: str) -> None:
    """`1`, `"1"`, `1.0` and `True`; `None`, `""` and `"None"`; and the like, in any setting."""
    judged = 0
    for path, kind in _CARRIERS.items():
        wrap = _WRAPPED[kind]
        clear = [keys.sure_key(world, _with({path: wrap(value)})) for value in _CLEAR]
        if clear[0] == clear[1]:
            continue
        values = _carried(kind, alike)
        found = [(repr(value), keys.sure_key(world, _with({path: value}))) for value in values]
        judged += 1
        tally(boots=len(found) + 2, examples=len(found))
        _judge(found, f"{path} holding one value of {len(values)} that look alike")

    if not judged:
        pytest.skip("the subject sees none of the settings that could hold such values: KEY-10")


@pytest.mark.requirement("KEY-12")
def test_characters_do_not_move_between_settings(world: World, tally: Tally) -> None:
    """A character that leaves one setting and joins the next one gives another key."""
    judged = 0
    for first, second in _NEIGHBOURS:
        texts = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("c", "ab")]
        pairs: list[tuple[str | None, str | None]] = [*texts, ("abc", None), (None, "abc")]
        found = [
            (f"({a!r}, {b!r})", keys.sure_key(world, _with({first: a, second: b})))
            for a, b in pairs
        ]
        clear = [keys.sure_key(world, _with({path: "zzz"})) for path in (first, second)]
        tally(boots=len(found) + 2, examples=len(found))
        if len({clear[0], clear[1], keys.sure_key(world, _with({}))}) < 3:
            continue
        judged += 1
        _judge(found, f"({first}, {second})")

    if not judged:
        pytest.skip("the subject sees none of these settings: KEY-10")


@pytest.mark.requirement("KEY-12")
def test_items_do_not_move_between_lists(world: World, tally: Tally) -> None:
    """An item that leaves one list and joins its neighbour gives another key."""
    path = "load_config.model_loader_extra_config"
    values: list[Any] = [
        {"a": ["x", "y"], "b": []},
        {"a": ["x"], "b": ["y"]},
        {"a": [], "b": ["x", "y"]},
        {"a": ["x", "y", "b"]},
        {"a": ["xy"], "b": []},
        {"a": [["x"], ["y"]], "b": []},
        {"a": [["x", "y"]], "b": []},
        {"a": {"x": "y"}, "b": []},
        {"a": ["x"], "b": [], "c": ["y"]},
        {"a": ["y", "x"], "b": []},
    ]
    clear = [keys.sure_key(world, _with({path: {"a": [text]}})) for text in _CLEAR]
    if clear[0] == clear[1]:
        pytest.skip(f"the subject does not see {path}: KEY-10")
    found = [(repr(value), keys.sure_key(world, _with({path: value}))) for value in values]
    tally(boots=len(found) + 2, examples=len(found))

    _judge(found, path)


def _key_with(world: World, texts: Mapping[str, str | None]) -> str:
    """The key where these factors, which are texts in every subject, have these values."""
    engine, plain = Engine(), Runtime()
    given = {"device": "plain device", "hash": keys.SAME_HASH, "hip": None} | dict(texts)
    world.devices[0].name = given["device"] or ""
    engine.hash_override = given["hash"]
    for name in ("vllm", "torch", "cuda", "hip"):
        setattr(world.runtime, name, given.get(name, getattr(plain, name)))
    return keys.sure_key(world, engine)


@pytest.mark.requirement("KEY-12")
def test_characters_do_not_move_between_the_device_and_the_versions(
    world: World, tally: Tally
) -> None:
    """Device `A1` under version `2` is not device `A` under version `12`, whatever lies between."""
    usual = _key_with(world, {})
    factors = [
        name
        for name in ("device", "vllm", "torch", "cuda", "hash")
        if _key_with(world, {name: "zzz"}) != usual
    ]
    separators = _SEPARATORS if profiles.is_thorough() else _SEPARATORS[:2]
    for (first, second), gap in itertools.product(itertools.permutations(factors, 2), separators):
        found = [
            (f"({a!r}, {b!r})", _key_with(world, {first: a, second: b}))
            for a, b in ((f"a{gap}b", "c"), ("a", f"b{gap}c"))
        ]
        tally(boots=2, examples=1)
        _judge(found, f"({first}, {second})")

    if len(factors) < 2:
        pytest.skip("the subject sees neither the device nor the versions: KEY-03, KEY-05")


@pytest.mark.requirement("KEY-12")
@pytest.mark.parametrize("runtime", ["cuda", "hip"])
def test_no_runtime_is_not_an_empty_one(world: World, tally: Tally, runtime: str) -> None:
    """`torch.version.cuda` None, `""` and `"None"` are three builds of torch, HIP likewise."""
    other = {"hip": "7.0"} if runtime == "cuda" else {"cuda": None}
    values = (None, "", "None", "null", "0")
    found = [(repr(value), _key_with(world, {**other, runtime: value})) for value in values]
    tally(boots=len(values) + 2)
    if len({_key_with(world, {**other, runtime: text}) for text in _CLEAR}) < 2:
        pytest.skip(f"the subject does not see torch.version.{runtime}: KEY-05")

    _judge(found, f"torch.version.{runtime}")


@pytest.mark.requirement("KEY-12")
def test_a_version_does_not_move_between_runtimes(world: World, tally: Tally) -> None:
    """CUDA 7.0 without HIP is not HIP 7.0 without CUDA."""
    cases: dict[str, dict[str, str | None]] = {
        "CUDA 7.0": {"cuda": "7.0", "hip": None},
        "HIP 7.0": {"cuda": None, "hip": "7.0"},
    }
    clear = [_key_with(world, {"cuda": None, "hip": text}) for text in _CLEAR]
    if clear[0] == clear[1]:
        pytest.skip("the subject does not see torch.version.hip: KEY-05")
    found = [(name, _key_with(world, case)) for name, case in cases.items()]
    tally(boots=4)

    _judge(found, "the accelerator runtime")


@pytest.mark.requirement("KEY-12")
def test_digits_do_not_move_between_rank_and_world_size(world: World, tally: Tally) -> None:
    """Rank 1 of 123 is not rank 11 of 23, nor is rank 1 of 211 rank 11 of 21."""
    keys.make_roomy(world)
    found = []
    for rank, world_size in ((1, 123), (11, 23), (1, 211), (11, 21), (1, 12), (11, 12)):
        engine = Engine(placement=(0,) * world_size)
        engine.world_size = world_size
        engine.set("parallel_config.world_size", world_size)
        engine.hash_override = keys.SAME_HASH
        found.append((f"rank {rank} of {world_size}", keys.sure_key(world, engine, rank)))
    tally(boots=len(found))
    if found[4][1] == found[5][1]:
        pytest.skip("the subject does not see the rank: KEY-07")

    _judge(found[:2], "one group")
    _judge(found[2:4], "one group")


@pytest.mark.requirement("KEY-12")
def test_characters_do_not_move_between_variables(world: World, tally: Tally) -> None:
    """Neither from a name to its value, nor from a value to the name that follows."""
    long, short = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB", "VLLM_ROCM_QUICK_REDUCE"
    short += "_QUANTIZATION"
    before, after = "VLLM_HUMMING_MOE_GEMM_TYPE", "VLLM_MARLIN_INPUT_DTYPE"
    cases: list[tuple[dict[str, str], dict[str, str]]] = [
        ({short: "_MIN_SIZE_KB1"}, {long: "1"}),
        ({before: "x", after: ""}, {before: "x"}),
        ({before: "x", after: "None"}, {before: "x"}),
    ]
    for gap, equals in itertools.product(_SEPARATORS, ("=", ":", "", '": "', "': '")):
        if "\0" not in gap:
            cases.append(({before: f"x{gap}{after}{equals}y"}, {before: "x", after: "y"}))
    if not profiles.is_thorough():
        cases = cases[:10]
    names = (long, short, before, after)
    clear = [keys.sure_key(world, _with({}, {name: "123"})) for name in names]
    if len({keys.sure_key(world, _with({})), *clear}) < 5:
        pytest.skip("the subject does not see these variables: KEY-11")
    for first, second in cases:
        found = [(repr(env), keys.sure_key(world, _with({}, env))) for env in (first, second)]
        tally(boots=2, examples=1)
        _judge(found, "the environment")
