# SPDX-License-Identifier: Apache-2.0
"""BOOT-10: engines in one process, one after the other or at once in threads."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories.scenes import tale
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB, gib
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.outcome import words_of
from startup_plan.harness.world.together import SHARED, OneProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


def _other_utilization(engine: Engine) -> None:
    engine.set("cache_config.gpu_memory_utilization", 0.5)


def _other_model(engine: Engine) -> None:
    engine.set("model_config.model", "another/model")
    engine.set("model_config.max_model_len", 4096)


def _other_device(engine: Engine) -> None:
    engine.placement = (1,)


def _explicit(engine: Engine) -> None:
    engine.explicit = 2 * GIB


OTHERS: Final[Mapping[str, Callable[[Engine], None]]] = {
    "another utilization": _other_utilization,
    "another model": _other_model,
    "another device": _other_device,
    "an explicit KV-cache size": _explicit,
}
"""What the second engine has -> how."""


def _engines(change: Callable[[Engine], None]) -> list[Engine]:
    engines = [Engine("the first engine"), Engine("the second engine")]
    change(engines[1])
    return engines


def _alone(
    world: World, fresh_folder: Callable[[], Path], engines: Sequence[Engine]
) -> list[tuple[list[str], int | None]]:
    """What each engine leaves and then applies, with a disk and a process of its own each time."""
    found = []
    for engine in engines:
        world.cache_root = str(fresh_folder())
        world.boot(engine)
        found.append((world.files(), world.boot(engine).applied))
    world.cache_root = str(fresh_folder())
    world.story.clear()
    return found


def _judge(
    world: World, fresh_folder: Callable[[], Path], engines: Sequence[Engine], order: str
) -> None:
    alone = _alone(world, fresh_folder, engines)
    if alone[0][0] == alone[1][0]:
        return  # They share a plan in any case, which is for KEY to judge.
    world.tell(f"two engines in one process look up and save in the order {order}")
    first = OneProcess(world).boot(engines, order)
    names = world.files()
    world.tell("again, in another process")
    again = OneProcess(world).boot(engines, order)
    raised = [words_of(each.raised) for each in (*first, *again) if each.raised is not None]
    if raised:
        raise Violation("BOOT-10", tale(world, f"one raised: {raised[0]}"))
    expected = sorted(name for left, _ in alone for name in left)
    if names != expected:
        verdict = f"they left {' '.join(names)}, and each alone {' '.join(expected)}"
        raise Violation("BOOT-10", tale(world, verdict))
    for result, (_, applied) in zip(again, alone, strict=True):
        if result.applied != applied:
            verdict = f"{result.engine} alone applies {gib(applied)}"
            raise Violation("BOOT-10", tale(world, verdict))
    early = [result.engine for result in first if result.applied is not None]
    if early:
        raise Violation("BOOT-10", tale(world, f"{early[0]} applied what it never saved"))


@pytest.mark.requirement("BOOT-10")
@pytest.mark.parametrize("order", SHARED)
@pytest.mark.parametrize("other", OTHERS)
def test_engines_of_one_process_are_engines_of_their_own(
    world: World, fresh_folder: Callable[[], Path], tally: Tally, other: str, order: str
) -> None:
    """Two engines in threads of one process save and apply what each would alone, in any order."""
    world.devices[1] = Device("Simulated H100", 96 * GIB, (10, 0))
    world.simulation.devices = world.devices
    engines = _engines(OTHERS[other])
    tally(boots=8, examples=1)

    _judge(world, fresh_folder, engines, order)


@pytest.mark.requirement("BOOT-10")
@pytest.mark.parametrize("order", ["AABB", "BBAA"])
def test_the_environment_of_one_engine_is_not_that_of_the_next(
    world: World, fresh_folder: Callable[[], Path], tally: Tally, order: str
) -> None:
    """A variable that is set between two engines of a process counts for the second alone."""
    engines = _engines(lambda engine: engine.setenv("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", "1"))
    tally(boots=8, examples=1)

    _judge(world, fresh_folder, engines, order)


@pytest.mark.requirement("BOOT-10")
def test_a_worker_at_the_address_of_another_is_another(
    world: World, fresh_folder: Callable[[], Path], tally: Tally
) -> None:
    """Engines that follow each other, each gone before the next is made, save each its own plan."""
    engines = [Engine(f"engine {number}") for number in range(6)]
    for number, engine in enumerate(engines):
        engine.set("model_config.max_model_len", 1024 * (1 + number))
    expected = sorted({name for left, _ in _alone(world, fresh_folder, engines) for name in left})
    process = OneProcess(world)
    for engine in engines:
        process.boot([engine], "AA")
        gc.collect()
    tally(boots=3 * len(engines), examples=1)

    if world.files() != expected:
        raise Violation("BOOT-10", tale(world, f"plans {world.files()}, alone {expected}"))
