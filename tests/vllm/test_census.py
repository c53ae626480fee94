# SPDX-License-Identifier: Apache-2.0
"""The census of the installed vLLM: everything is classified, and the reference's key has it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.census import classification
from startup_plan.harness.census import judge as census

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.census.judge import Census

pytestmark = pytest.mark.vllm

_GROWN: Final = """
import dataclasses, json, os, pathlib, sys
os.environ.update({"HF_HUB_OFFLINE": "1", "VLLM_CONFIGURE_LOGGING": "0"})
from startup_plan.harness.census import configs as real_configs
base = real_configs.build(pathlib.Path(sys.argv[1]))[0]
section = base.config.cache_config
later = dataclasses.make_dataclass("CacheConfig", [("scratch", int, 0)], bases=(type(section),))
later.__module__ = type(section).__module__
grown = object.__new__(later)
vars(grown).update(vars(section), scratch=0)
object.__setattr__(base.config, "cache_config", grown)
print("names", json.dumps([f"{p.owner}.{p.field}" for p in real_configs.places([base])]))
"""


@pytest.fixture(scope="module")
def taken(census_of: Callable[[str], Census]) -> Census:
    """The census of the installed vLLM with the key of the reference."""
    return census_of("reference")


@pytest.mark.usefixtures("audited")
def test_everything_is_classified(taken: Census) -> None:
    """Every field of every reachable class and every registered variable has a verdict."""
    assert (taken.unclassified, taken.unknown_classes, taken.out_of_reach) == ([], (), ())
    assert (len(taken.fields) > 540, len(taken.variables) > 300) == (True, True)


def test_nothing_is_classified_that_is_not_there(taken: Census) -> None:
    """What the data file says of an audited version exists in that version."""
    assert taken.stale == ()


@pytest.mark.usefixtures("audited")
def test_reference_has_all_that_takes_memory(taken: Census) -> None:
    """Whatever takes device memory, or may, moves the key of the reference."""
    assert [row.name for row in taken.gaps] == []
    assert taken.complete


def test_reference_has_nothing_without_need(taken: Census) -> None:
    """What takes no memory and is not in vLLM's hash does not move the key of the reference."""
    assert [row.name for row in census.needless(taken)] == []


@pytest.mark.usefixtures("audited")
def test_one_entry_less_is_named(taken: Census) -> None:
    """A field and a variable that nobody has classified are named, and the census fails."""
    classes = classification.load().without(["CacheConfig.block_size", "VLLM_USE_DEEP_GEMM"])
    found = census.judge(taken.seen, classes)

    assert found.unclassified == ["CacheConfig.block_size", "VLLM_USE_DEEP_GEMM"]
    assert not found.complete


def test_one_class_less_is_named(taken: Census) -> None:
    """A configuration class of which nothing is classified is named."""
    known = classification.load()
    names = [".".join(key) for key in known.fields if key[0] == "MambaConfig"]

    assert census.judge(taken.seen, known.without(names)).unknown_classes == ("MambaConfig",)


def test_a_field_that_a_later_release_adds_is_walked(
    taken: Census, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A field that a real configuration's class has grown is found, and is unclassified."""
    child = subprocess.run(
        [sys.executable, "-c", _GROWN, str(tmp_path_factory.mktemp("models"))],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    line = next(line for line in child.stdout.splitlines() if line.startswith("names "))
    names = json.loads(line.removeprefix("names "))
    known = {row.name for row in taken.fields}

    assert [name for name in names if name not in known] == ["CacheConfig.scratch"]


def test_shipped_module_has_gaps(census_of: Callable[[str], Census]) -> None:
    """The module that vLLM ships leaves out most of what its configuration hash leaves out."""
    found = census_of("vllm")
    rows = {row.name: row for row in found.rows}
    left_out = (
        "CacheConfig.gpu_memory_utilization",
        "ModelConfig.logprobs_mode",
        "SpeculativeConfig.num_speculative_tokens",
        "VLLM_USE_FLASHINFER_SAMPLER",
        "VLLM_USE_V2_MODEL_RUNNER",
    )

    assert not found.complete
    assert [rows[name] for name in left_out if not rows[name].is_gap] == []
    assert not rows["ModelConfig.max_model_len"].is_gap
