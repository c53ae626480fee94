# SPDX-License-Identifier: Apache-2.0
"""What the reference promises beyond the contract: its list, its spelling, its commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import startup_plan
from startup_plan.cli import main as cli
from startup_plan.harness.stubs.settings import ROWS, SETTINGS, VARIABLES
from startup_plan.harness.world.engine import Engine
from startup_plan.reference import (
    bounds,
    credentials,
    fingerprint,
    memory_settings,
    plan,
    store,
    variables,
    vllm_access,
)
from startup_plan.reference import worker as reference_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.world.world import World

COVERED_OTHERWISE = {
    ("CacheConfig", "gpu_memory_utilization"),  # a factor of its own
    ("ModelConfig", "hf_config"),  # compute_hash() reads all of it
    ("ModelConfig", "hf_text_config"),
    ("ParallelConfig", "placement_group"),  # a live handle
    ("CompilationConfig", "static_all_moe_layers"),  # written while the model is compiled
}


def test_nothing_that_takes_memory_is_on_the_list() -> None:
    """A field stays out only if the audit found that it takes no memory, or it is covered twice."""
    moving = {(row["owner"], row["path"].rpartition(".")[2]) for row in ROWS if row.get("moves")}
    unsure = {
        (row["owner"], row["path"].rpartition(".")[2])
        for row in ROWS
        if "moves" in row and row["moves"] is None
    }
    listed = {
        (owner, name)
        for owner in memory_settings.EXCLUDED_FIELDS
        for name in memory_settings.excluded_fields(owner)
    }

    assert (listed & (moving | unsure)) - COVERED_OTHERWISE == set()


def test_the_list_names_only_what_exists() -> None:
    """A misspelt exclusion would exclude nothing; every name is one that vLLM has."""
    known = {(row["owner"], row["path"].rpartition(".")[2]) for row in ROWS}
    listed = {
        (owner, name)
        for owner in memory_settings.EXCLUDED_FIELDS
        for name in memory_settings.excluded_fields(owner)
    }

    assert listed - known - {("ModelConfig", "model_arch_config")} == set()


def test_every_reviewed_variable_is_out_and_every_other_is_in() -> None:
    """A registered variable counts exactly if the audit did not clear it."""
    wrong = [
        variable.name
        for variable in VARIABLES
        if variables.variable_counts(variable.name) != (variable.moves is not False)
        if variable.name not in {"CUDA_VISIBLE_DEVICES", "VLLM_USE_BREAKABLE_CUDAGRAPH"}
    ]

    assert wrong == []


def test_addresses_of_services_do_not_enter_the_key() -> None:
    """What an orchestrator writes into a pod beside a service called vllm says nothing."""
    names = ["VLLM_SERVICE_HOST", "VLLM_SERVICE_PORT_HTTP", "VLLM_PORT_8000_TCP_ADDR", "VLLM_PORT"]

    assert [variables.variable_counts(name) for name in names] == [False] * 4


@dataclass
class Inner:
    """A section with a value of every awkward kind."""

    value: Any = None


@dataclass
class Outer:
    """A configuration tree."""

    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (1, "1"),
        (None, ""),
        (None, "None"),
        ({1: 2}, {"1": 2}),
        ([["a", "b"]], [["a"], ["b"]]),
        ({"set": [1]}, {1}),
        ({"enum": ["Inner", "x"]}, SimpleNamespace(enum=["Inner", "x"])),
        (["ab", "c"], ["a", "bc"]),
    ],
)
def test_different_values_are_spelled_differently(one: object, other: object) -> None:
    """No two values share a spelling, whatever their types (KEY-12)."""
    first = fingerprint.settings_of(Outer(Inner(one)))
    second = fingerprint.settings_of(Outer(Inner(other)))

    assert fingerprint.key_of(first) != fingerprint.key_of(second)


def test_order_without_meaning_is_not_spelled() -> None:
    """Sets and dictionaries are spelled the same in every order (KEY-13)."""
    first = fingerprint.settings_of(Outer(Inner({"a": {1, 2, 3}, "b": 2})))
    second = fingerprint.settings_of(Outer(Inner({"b": 2, "a": {3, 2, 1}})))

    assert fingerprint.key_of(first) == fingerprint.key_of(second)


@pytest.mark.parametrize("value", [object(), lambda: None, {"x": object()}])
def test_a_value_without_a_lasting_spelling_is_refused_or_named(value: object) -> None:
    """A memory address never enters the key: functions go by name, other objects are refused."""
    try:
        text = json.dumps(fingerprint.settings_of(Outer(Inner(value))))
    except startup_plan.NoPlanError as error:
        text = str(error).partition(",")[2]

    assert " at 0x" not in text


def test_a_circle_is_refused() -> None:
    """A configuration that contains itself ends in a sentence, not in a RecursionError."""
    value: list[object] = []
    value.append(value)

    with pytest.raises(startup_plan.NoPlanError, match="circle"):
        fingerprint.settings_of(Outer(Inner(value)))


def test_a_huge_account_still_makes_a_plan_that_can_be_read() -> None:
    """What is too long for the file is left out of it; a save never writes what a load refuses."""
    factors = {f"setting {number}": "x" * 90 for number in range(2000)}
    data = plan.encode(plan.Plan("0" * 16, 5, 6, None, factors))

    assert (len(data) <= plan.MAX_PLAN_BYTES, plan.decode(data, "0" * 16).factors) == (True, {})


def test_secrets_do_not_reach_a_plan(world: World) -> None:
    """A plan can be read by other users: of what may be a secret it holds at most the name."""
    engine = Engine()
    engine.environ |= {
        "VLLM_HUB_TOKEN": "hush-1",
        "VLLM_ROUTE": "plain-to-see",
        "VLLM_PLUGIN_ARGUMENTS": "--api-key=hush-2",
        "ACME_LICENCE": "hush-3",
    }
    engine.set("load_config.model_loader_extra_config", {"nested": {"password": "hush-4"}})
    engine.set("speculative_config.model", "s3://me:hush-5@host/bucket")
    world.boot(engine)
    with open(world.plans()[0], encoding="utf-8") as stream:
        text = stream.read()

    assert ("hush" in text, "plain-to-see" in text) == (False, True)
    assert [name in text for name in ("VLLM_PLUGIN_ARGUMENTS", "ACME_LICENCE")] == [True, True]


def test_a_token_that_is_renewed_finds_the_same_plan(world: World) -> None:
    """A secret is no factor: neither as a variable nor in a mapping, whatever else is in there."""
    keys = set()
    for token in ("one", "two"):
        engine = Engine()
        engine.environ |= {"HF_TOKEN": token, "ACME_API_KEY": token, "ACME_DB_PASSWORD": token}
        engine.set("load_config.model_loader_extra_config", {"s3": {"token": token}, "n": 1})
        world.boot(engine)
        keys |= set(world.plans())

    assert len(keys) == 1


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("VLLM_API_KEY", True),
        ("S3_ACCESS_KEY_ID", True),
        ("awsSecretAccessKey", True),
        ("DB_PASSWORD", True),
        ("DOOR_PIN", True),
        ("VLLM_WEIGHT_OFFLOADING_DISABLE_PIN_MEMORY", False),
        ("VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD", False),
        ("max_num_batched_tokens", False),
        ("monkey", False),
    ],
)
def test_a_secret_is_known_by_its_name(name: str, secret: bool) -> None:
    """Words decide, not letters: a threshold of tokens and pinned memory are no secrets."""
    assert credentials.is_secret(name) is secret


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Neither torch nor vLLM nor Hypothesis comes with `import startup_plan`."""
    heavy = ("torch", "vllm", "hypothesis", "pytest", "rich", "click", "importlib.metadata")
    code = f"import sys, startup_plan; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


def test_an_explicit_size_is_not_saved_even_when_asked(world: World) -> None:
    """The reference does not rely on its caller: a save beside an explicit size stores nothing."""
    engine = Engine()
    engine.explicit = 0
    worker = world.worker(engine)
    with world.process_of(engine):
        world.subject.fresh().maybe_save_startup_plan(worker, 5 * 2**30)

    assert world.files() == []


def test_the_gate_and_the_store_agree_on_what_is_a_size() -> None:
    """What `storable` lets through is a plan, and what it refuses names the value."""
    memory = bounds.Memory(free=10, total=20, utilization=0.25, weights=None)

    assert bounds.storable(5, memory) == 5
    for value in (0, -1, 6, 11, True, 2.0, "3", None, 10**4000):
        with pytest.raises(startup_plan.NoPlanError):
            bounds.storable(value, memory)


def saved_plans(world: World, utilizations: list[float]) -> list[str]:
    """Plans of one engine under several utilizations, in the order in which they were saved."""
    engine, found = Engine(), []
    for utilization in utilizations:
        before = set(world.plans())
        engine.set("cache_config.gpu_memory_utilization", utilization)
        world.boot(engine)
        found += sorted(set(world.plans()) - before)
    return found


def test_plans_lists_what_lies_in_a_cache_root(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole plans are shown with their sizes, others with the reason."""
    saved_plans(world, [0.9, 0.5])
    other = store.path_of(world.cache_root, "f" * 16)
    with open(other, "w", encoding="utf-8") as stream:
        stream.write("{}")

    status = cli.run(["plans", world.cache_root])

    out = capsys.readouterr().out
    assert (status, out.count("whole"), "3 plans and 0 other files" in out) == (0, 2, True)


def test_explain_says_which_factors_differ(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between two plans of one engine under two utilizations, that is what differs."""
    status = cli.run(["explain", *saved_plans(world, [0.9, 0.5])])

    assert (status, "gpu_memory_utilization: 0.9 -> 0.5" in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plans", "/nonexistent"], "cannot be listed"),
        (["explain", "/nonexistent.json"], "a plan is called"),
        (["explain", "/startup_plan_0123456789abcdef.json"], "no such file"),
    ],
)
def test_bad_input_gets_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path that is no cache root or no plan is named, with status 2 and no traceback."""
    status = cli.run(arguments)

    shown = capsys.readouterr().err
    assert (status, said in shown, "Traceback" in shown) == (2, True, False)


def test_a_foreign_file_is_explained_as_what_it_is(
    fresh_folder: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan of vLLM's own module is not one of this package, and that is said."""
    path = fresh_folder() / "startup_plan_0123456789abcdef.json"
    path.write_text('{"schema": 1, "fingerprint": "0123456789abcdef"}')

    status = cli.run(["explain", str(path)])

    shown = capsys.readouterr().err
    assert (status, "no plan of this package" in shown, os.path.basename(path) in shown) == (
        2,
        True,
        True,
    )


def test_settings_and_rows_tell_the_same_story() -> None:
    """The table that the list is held against is the one that the world is made of."""
    assert {s.path for s in SETTINGS} <= {row["path"] for row in ROWS}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("NCCL_BUFFSIZE", True),
        ("ACME_KV_POOL_BYTES", True),
        ("LMCACHE_CHUNK_SIZE", True),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", True),
        ("PYTORCH_ALLOC_CONF", True),
        ("T", True),
        ("TMPDIR", False),
        ("SLURM_JOB_ID", False),
        ("MY_POD_IP", False),
        ("REDIS_PORT_6379_TCP_ADDR", False),
        ("PS1", False),
        ("ACME_API_KEY", False),
    ],
)
def test_a_variable_is_in_unless_it_is_on_a_list(name: str, counts: bool) -> None:
    """A name that nobody has heard of counts; names and beginnings on the lists, alone, do not."""
    assert variables.variable_counts(name) is counts


@pytest.mark.parametrize(
    ("figures", "stored"),
    [
        ({"total_consumed": 30, "peak_activation_memory": 15}, 48),  # 0.27 and later
        ({"peak_activation_memory": 5, "non_torch_memory": 3}, 38),  # 0.26
        ({"total_consumed": 30, "peak_activation_memory": 5}, 38),
    ],
)
def test_graphs_are_added_back_only_where_they_were_taken_off_twice(
    monkeypatch: pytest.MonkeyPatch, figures: dict[str, int], stored: int
) -> None:
    """Where the peak has no estimate in it, graphs were taken off once, and nothing is added."""
    flags = SimpleNamespace(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=True)
    monkeypatch.setattr(vllm_access, "envs", lambda: flags)
    measured = SimpleNamespace(
        requested_memory=100, cudagraph_memory_estimate=10, available_kv_cache_memory_bytes=55
    )
    vars(measured).update(figures)

    assert reference_worker._graphs_once(measured, 38) == stored
