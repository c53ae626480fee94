# SPDX-License-Identifier: Apache-2.0
"""What a rank finds in a process that stands in a thread: its device's memory, its signals."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.stubs.unknown import NO_ALARM, unknown_names
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.reader import Reader, plain_engine
from startup_plan.harness.world.together import Rank, boot_ranks
from startup_plan.harness.world.world import World

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_PLAN: Final = """
import signal
import torch

def compute_plan_fingerprint(vllm_config, rank, world_size):
    return "0" * 16

def maybe_apply_startup_plan(worker):
    {}

def maybe_save_startup_plan(worker, kv_cache_memory_bytes):
    {}
"""
_SAY: Final = (
    "from vllm.logger import init_logger; init_logger('plan').info('%d', "
    "torch.accelerator.get_memory_info(worker.device)[0])"
)
_HANDLERS: Final = (
    "before = signal.signal(signal.SIGTERM, print); "
    "assert (before, signal.getsignal(signal.SIGTERM)) == (signal.SIG_DFL, print)"
)
_ALARMS: Final = {"alarm": "signal.alarm(5)", "timer": "signal.setitimer(signal.ITIMER_REAL, 5)"}


@pytest.fixture(autouse=True)
def _nothing_asked() -> Generator[None]:
    unknown_names.clear()
    yield
    unknown_names.clear()


def _world(folder: Path, look_up: str, save: str = "pass") -> World:
    file = folder / "plan.py"
    file.write_text(_PLAN.format(look_up, save))
    return World(load_subject(str(file)), folder / "disk")


def _pair(world: World) -> list[BaseException | None]:
    engine = Engine(world_size=2)
    return [each.raised for each in boot_ranks(world, [Rank(engine, n, n) for n in (0, 1)])]


def test_a_rank_sets_its_handlers(tmp_path: Path) -> None:
    """A handler is set and found again in each rank's process, and never in the judge's."""
    before = signal.getsignal(signal.SIGTERM)
    with _world(tmp_path, _HANDLERS) as world:
        raised = _pair(world)

    assert (raised, signal.getsignal(signal.SIGTERM), unknown_names) == ([None, None], before, [])


@pytest.mark.parametrize("how", _ALARMS)
def test_an_alarm_in_a_group_is_a_limit(tmp_path: Path, how: str) -> None:
    """An alarm is noted as what the simulation cannot ring; that of the judge goes on."""
    signal.setitimer(signal.ITIMER_REAL, 3600)
    try:
        with _world(tmp_path, _ALARMS[how]) as world:
            raised = _pair(world)
        left = signal.getitimer(signal.ITIMER_REAL)[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

    assert (raised, left > 0, set(unknown_names)) == ([None, None], True, {NO_ALARM})


def test_what_a_boot_has_taken_is_not_free(tmp_path: Path) -> None:
    """At the look-up the weights are loaded, at the save the KV cache is allocated as well."""
    with _world(tmp_path, _SAY, _SAY) as world:
        engine = Engine()
        result = world.boot(engine)
        takes = world.footprint(engine, 0)
        loaded = takes.weights + takes.persistent

        assert result.raised is None
        assert [result.free - int(line) for line in result.lines] == [loaded, loaded + result.kv]


def test_a_reader_has_loaded_its_weights(tmp_path: Path) -> None:
    """A rank that looks up again and again finds its device as one that boots does."""
    engine = plain_engine()
    with _world(tmp_path, _SAY) as world, Reader(world, engine, free=70 * GIB) as reader:
        reader.look()
        takes = world.footprint(engine, 0)
        (line,) = world.simulation.log

    assert 70 * GIB - int(line[1]) == takes.weights + takes.persistent
