# SPDX-License-Identifier: Apache-2.0
"""Attributes that vLLM's worker and configurations have, and the stubs have not."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.stubs import attributes
from startup_plan.harness.stubs.unknown import UnknownNameError, unknown_names
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

BEYOND: Final[dict[str, Callable[[Any], object]]] = {
    "Worker": lambda worker: worker.compile_or_warm_up_model,
    "Worker, later": lambda worker: worker.total_consumed,
    "ModelRunner": lambda worker: worker.model_runner.kv_caches,
    "ModelConfig": lambda worker: worker.vllm_config.model_config.get_vocab_size(),
    "ParallelConfig": lambda worker: worker.parallel_config.use_ray,
}
"""What vLLM has and the simulation has not -> who asks for it."""

WITHOUT: Final[dict[str, Callable[[Any], object]]] = {
    "by default": lambda worker: getattr(worker, "total_consumed", None) is None,
    "by hasattr": lambda worker: not hasattr(worker.model_config, "get_vocab_size"),
}
"""How to ask for what may not be there."""


@pytest.fixture
def worker(tmp_path: Path) -> Generator[Any]:
    """A worker of the simulated world; nothing was asked for in vain yet."""
    unknown_names.clear()
    with World(load_subject("reference"), tmp_path) as world:
        yield world.worker(Engine())
    unknown_names.clear()


@pytest.mark.parametrize("asked", BEYOND)
def test_what_only_vllm_has_is_a_limit(worker: Any, asked: str) -> None:
    """An attribute that vLLM's own class has and the stub has not is named, as our limit."""
    with pytest.raises(UnknownNameError, match=f"it asks vLLM's {asked.partition(',')[0]} for"):
        BEYOND[asked](worker)

    assert len(unknown_names) == 1


@pytest.mark.parametrize("asked", WITHOUT)
def test_who_asks_whether_it_is_there_does_without(worker: Any, asked: str) -> None:
    """A default or `hasattr` says that the subject can do without: no limit is met."""
    assert (WITHOUT[asked](worker), unknown_names) == (True, [])


@pytest.mark.parametrize("part", ["vllm_config", "model_runner", "cache_config"])
def test_what_nobody_has_is_an_error_of_the_subject(worker: Any, part: str) -> None:
    """A name that vLLM does not have either is an `AttributeError`, as it is there."""
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'") as caught:
        getattr(worker, part).no_such_thing  # noqa: B018  # asked for in vain

    assert (isinstance(caught.value, UnknownNameError), unknown_names) == (False, [])


def test_weights_that_are_hidden_are_no_limit(worker: Any) -> None:
    """Where a scene hides the size of the weights, a subject finds none, as on such a runner."""
    del worker.model_runner.model_memory_usage
    with pytest.raises(AttributeError) as caught:
        worker.model_runner.model_memory_usage  # noqa: B018  # asked for in vain

    assert (isinstance(caught.value, UnknownNameError), unknown_names) == (False, [])


def test_configurations_are_copied_and_pickled_as_before(worker: Any) -> None:
    """What Python itself asks an object for meets no limit."""
    config = worker.vllm_config
    pickled = pickle.loads(pickle.dumps(config))  # noqa: S301  # our own bytes
    for made in (copy.deepcopy(config), pickled):
        assert made == config

    assert unknown_names == []


def test_every_class_of_the_list_has_names() -> None:
    """The list has the worker, the runners and each configuration class, none of them empty."""
    listed = attributes.names()

    assert {"Worker", "ModelRunner", "VllmConfig", "SpeculativeConfig"} <= listed.keys()
    assert {name for name, found in listed.items() if not found} == set()
    assert "determine_available_memory" in listed["Worker"]
