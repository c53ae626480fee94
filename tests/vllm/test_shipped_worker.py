# SPDX-License-Identifier: Apache-2.0
"""The module that the installed vLLM ships, in its own worker: what the contract says it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.real_vllm.group_scenes import ODD, SHAPES, Group
from startup_plan.harness.real_vllm.host import Booter, RealHost
from startup_plan.harness.real_vllm.order import ASSIGNED, Accelerator, Load
from startup_plan.harness.stubs.units import GIB, SAFETY_BUFFER
from startup_plan.harness.world.engine import UTILIZATION

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

pytestmark = pytest.mark.vllm

PAIR: Final = next(iter(SHAPES))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Generator[Booter]:
    """Boots vLLM's own module."""
    with Booter("vllm", tmp_path_factory.mktemp("vllm") / "errors") as running:
        yield running


@pytest.fixture
def host(shipped: Booter, fresh_folder: Callable[[], Path]) -> RealHost:
    """A host on which vLLM is as it was released."""
    return RealHost(shipped, fresh_folder())


def test_it_saves_and_applies(host: RealHost) -> None:
    """BOOT-01, BOOT-02, BOOT-05 hold: the second boot applies what was handed over."""
    (first,), (second,) = (host.boot(host.order()) for _ in range(2))

    assert (second.applied, second.kv) == (first.suggestion, first.suggestion)
    assert (first.calls[:2], second.calls[:2]) == (
        ["profile_run", "profile_cudagraph_memory"],
        ["profile_run", "capture_model"],
    )
    assert (second.hashes[0], second.changed) == (second.hashes[1], [])


def test_it_reuses_the_plan_of_a_higher_budget(host: RealHost) -> None:
    """BOOT-06 is violated: at a lower utilization it hands out what the higher one measured."""
    (high,), (low,) = (host.boot(host.order(settings={UTILIZATION: value})) for value in (0.9, 0.5))

    assert (low.applied, low.needed > low.budget) == (high.suggestion, True)


def test_it_asks_the_platform_that_runs(shipped: Booter, host: RealHost) -> None:
    """A subject of vLLM's own tree is executed on the modules that run, and not on copies."""
    if not shipped.assigns:
        pytest.skip(f"engines of vLLM {shipped.version} are not assigned cards")
    first, second = Accelerator("Simulated H200"), Accelerator("Simulated L40S")
    applied = [
        host.boot(host.order(settings={ASSIGNED: [1]}, cards=cards))[0].applied
        for cards in ([first, second], [first, second], [second, first])
    ]

    assert [bool(size) for size in applied] == [False, True, False]


def test_it_takes_graphs_off_twice(shipped: Booter, host: RealHost) -> None:
    """BOOT-08 is violated from 0.27 on: the applied KV cache lacks the graphs beyond the buffer."""
    load = Load(graphs=GIB, estimate=GIB)
    (first,), (second,) = (host.boot(host.order(load=load)) for _ in range(2))
    assert first.measured is not None
    assert second.applied is not None

    # The worker of 0.26 keeps the estimate out of the peak that it subtracts again.
    twice = 0 if shipped.version.startswith("0.26.") else GIB
    assert first.measured - second.applied == SAFETY_BUFFER + twice


def test_one_byte_less_on_one_rank_hangs_the_group(host: RealHost) -> None:
    """GROUP-01 is violated: one byte less on one of two ranks, and it waits for its neighbour."""
    group = Group(host, PAIR)
    for _ in range(2):
        group.boot()
    first, second = group.boot(held=1)

    assert (first.hung, first.stage, first.applied is not None) == (False, "done", True)
    assert (second.rank, second.hung, second.stage) == (ODD, True, "graph estimate")
