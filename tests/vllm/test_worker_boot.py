# SPDX-License-Identifier: Apache-2.0
"""BOOT and KEY-16 on vLLM's own worker, whose memory figures come from a simulated accelerator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract.violation import (
    NeverReachedError,
    UndecidedError,
    Violation,
)
from startup_plan.harness.real_vllm.controls import WORKER
from startup_plan.harness.real_vllm.order import Load, RankOrder
from startup_plan.harness.stubs.units import GIB, MIB, SAFETY_BUFFER, gib
from startup_plan.harness.world.engine import UTILIZATION
from startup_plan.support.plan_files import names_in, plan_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from startup_plan.harness.real_vllm.host import RealHost
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult

pytestmark = [pytest.mark.vllm, pytest.mark.control(WORKER)]

PROFILE: Final = "profile_run"
ESTIMATE: Final = "profile_cudagraph_memory"

REWRITES: Final[Mapping[str, dict[str, Any]]] = {
    "the model length is fitted": {"model_config.max_model_len": 96},
    "the block size is chosen": {"cache_config.block_size": 64},
    "the CUDA-graph mode is lowered": {"compilation_config.cudagraph_mode": "PIECEWISE"},
    "the capture sizes are cut": {"compilation_config.cudagraph_capture_sizes": [1, 2]},
}


def _remove(host: RealHost) -> dict[str, Any]:
    for path in host.plans():
        os.unlink(path)
    return {}


def _garbage(host: RealHost) -> dict[str, Any]:
    for path in host.plans():
        with open(path, "wb") as stream:
            stream.write(b"{}")
    return {}


SPOILERS: Final[Mapping[str, Callable[[RealHost], dict[str, Any]]]] = {
    "the plan is removed": _remove,
    "the plan is overwritten with garbage": _garbage,
    "a co-tenant takes one byte": lambda _: {"ranks": {0: RankOrder(held=1)}},
    "the weights grow by 1 GiB": lambda _: {"load": Load(weights=15 * GIB)},
}
"""What happens after a plan was saved, which then must not be applied -> how."""


DEATHS: Final[Mapping[str, RankOrder]] = {
    "refused admission": RankOrder(held=40 * GIB),
    "out of memory while it profiles": RankOrder(runs_out=PROFILE),
    "out of memory while it profiles beside a neighbour": RankOrder(2 * GIB, runs_out=PROFILE),
    "out of memory while it estimates graphs": RankOrder(2 * GIB, runs_out=ESTIMATE),
    "out of memory while it captures graphs": RankOrder(runs_out="capture_model"),
}
"""How a boot dies before it is ready -> what brings that about."""


def _boot(host: RealHost, requirement: str, **parts: Any) -> BootResult:
    (report,) = host.must_boot(host.order(**parts), requirement)
    return report


@pytest.mark.requirement("BOOT-01")
def test_the_next_boot_applies(host: RealHost, tally: Tally) -> None:
    """What one boot of the real worker saved, the next applies, with what is stored behind it."""
    first = _boot(host, "BOOT-01")
    second = _boot(host, "BOOT-01")
    tally(boots=2, examples=1)

    if first.suggestion and not second.applied:
        raise Violation("BOOT-01", host.tale("the second boot measured again"))
    if second.applied and second.kv != second.applied:
        verdict = f"the worker returned {second.kv} bytes for the engine to allocate"
        raise Violation("BOOT-01", host.tale(verdict))


@pytest.mark.requirement("BOOT-02")
def test_applying_skips_the_measurement(host: RealHost, tally: Tally) -> None:
    """The worker that applies runs the one profile run that compiles, and no estimate."""
    first = _boot(host, "BOOT-02")
    second = _boot(host, "BOOT-02")
    tally(boots=2, examples=1)

    ran = (second.calls.count(PROFILE), second.calls.count(ESTIMATE))
    usual = (first.calls.count(PROFILE), first.calls.count(ESTIMATE))
    # Whether it applies is BOOT-01's matter.
    if second.applied and (ran, usual) != ((1, 0), (1, 1)):
        verdict = f"measuring it ran {', '.join(first.calls)}, applying {', '.join(second.calls)}"
        raise Violation("BOOT-02", host.tale(verdict))


@pytest.mark.requirement("BOOT-03")
@pytest.mark.parametrize("what", SPOILERS)
def test_not_applying_is_the_feature_off(host: RealHost, tally: Tally, what: str) -> None:
    """The worker that applies no plan makes the calls, and reaches the value, of one without."""
    first = _boot(host, "BOOT-03")
    extra = SPOILERS[what](host)
    host.tell(what)
    (second,) = host.boot(host.order(**extra))
    plain = _boot(host, "BOOT-03", enabled=False, **extra)
    tally(boots=3, examples=1)

    # Applying after all, or raising, breaks another sentence.
    refused = not second.raised and second.applied != first.suggestion and not second.applied
    if refused and (second.calls, second.kv) != (plain.calls, plain.kv):
        verdict = (
            f"with the feature off it ran {', '.join(plain.calls)} for {plain.kv} bytes, "
            f"with it on {', '.join(second.calls)} for {second.kv} bytes"
        )
        raise Violation("BOOT-03", host.tale(verdict))


@pytest.mark.requirement("BOOT-04")
def test_a_boot_that_applies_saves_nothing(host: RealHost, tally: Tally) -> None:
    """Applying on the real worker leaves every plan file as it was: bytes, time and inode."""
    _boot(host, "BOOT-04")
    for path in host.plans():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    before = _contents(host)
    second = _boot(host, "BOOT-04")
    tally(boots=2, examples=1)

    if second.applied and _contents(host) != before:
        raise Violation("BOOT-04", host.tale("plan files changed although a plan was applied"))


def _contents(host: RealHost) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for name in names_in(plan_folder(host.cache_root)):
        path = os.path.join(plan_folder(host.cache_root), name)
        status = os.stat(path)
        with open(path, "rb") as stream:
            found[name] = (status.st_ino, status.st_mtime_ns, stream.read())
    return found


@pytest.mark.requirement("BOOT-05")
def test_applying_leaves_the_config_hash(host: RealHost, tally: Tally) -> None:
    """Applying changes one setting of a real configuration, and so no compile-cache key."""
    _boot(host, "BOOT-05")
    second = _boot(host, "BOOT-05")
    tally(boots=2, examples=1)

    before, after = second.hashes
    if second.applied and before != after:
        raise Violation("BOOT-05", host.tale(f"compute_hash() went from {before} to {after}"))
    if second.applied and second.changed:
        raise Violation("BOOT-05", host.tale(f"applying also changed {', '.join(second.changed)}"))


@pytest.mark.requirement("BOOT-06")
def test_a_lowered_budget_is_measured_anew(host: RealHost, tally: Tally) -> None:
    """At a lower utilization the worker measures within the budget; raised back, it applies."""
    high, low = {UTILIZATION: 0.9}, {UTILIZATION: 0.5}
    _boot(host, "BOOT-06", settings=high)
    again = _boot(host, "BOOT-06", settings=high)
    lower = _boot(host, "BOOT-06", settings=low)
    back = _boot(host, "BOOT-06", settings=high)
    tally(boots=4, examples=1)

    if lower.applied or lower.needed > lower.budget:
        verdict = f"at the lower budget of {gib(lower.budget)} it needs {gib(lower.needed)}"
        raise Violation("BOOT-06", host.tale(verdict))
    if again.applied != back.applied:
        raise Violation("BOOT-06", host.tale("the first plan was not used again"))


@pytest.mark.requirement("BOOT-09")
@pytest.mark.parametrize("how", DEATHS)
def test_a_death_leaves_every_plan(host: RealHost, tally: Tally, how: str) -> None:
    """A worker that dies before it is ready saves no plan, and leaves the older one as it is."""
    _die(host, how)
    if host.plans():
        raise Violation("BOOT-09", host.tale("a plan was saved"))
    first = _boot(host, "BOOT-09")
    if first.applied:
        raise Violation("BOOT-09", host.tale("what was applied is of no boot that came to live"))
    before = _plans(host)
    _die(host, how)
    tally(boots=3, examples=1)

    if _plans(host) != before:
        raise Violation("BOOT-09", host.tale("the plan is not what it was"))


def _die(host: RealHost, how: str) -> None:
    """Boot to a death that vLLM's worker dies by itself."""
    (report,) = host.boot(host.order(ranks={0: DEATHS[how]}))
    if report.raised is None or report.where:
        pytest.skip(f"never reached: {host.tale(f'the boot was to die, {how}')}")


def _plans(host: RealHost) -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in host.plans()}


@pytest.mark.requirement("BOOT-08")
@pytest.mark.parametrize("surplus", [0, -300 * MIB, 200 * MIB])
def test_graphs_are_counted_once(host: RealHost, tally: Tally, surplus: int) -> None:
    """The KV cache of an applied plan is the measured one, less the worker's safety buffer."""
    load = Load(graphs=GIB + surplus, estimate=GIB)
    first = _boot(host, "BOOT-08", load=load)
    second = _boot(host, "BOOT-08", load=load)
    tally(boots=2, examples=1)

    if not second.applied or not first.measured:
        raise NeverReachedError("a plan that was measured and applied")
    # What the graphs take beyond their estimate has to come from somewhere.
    lost = first.measured - second.applied - max(0, surplus)
    if lost > SAFETY_BUFFER:
        verdict = (
            f"graphs estimated at {gib(load.estimate)} took {gib(load.graphs)}; the plan gives "
            f"{gib(lost)} less than was measured, the safety buffer is {gib(SAFETY_BUFFER)}"
        )
        raise Violation("BOOT-08", host.tale(verdict))
    if second.needed > second.budget:
        verdict = f"it needs {gib(second.needed)} of a budget of {gib(second.budget)}"
        raise Violation("BOOT-08", host.tale(verdict))


@pytest.mark.requirement("KEY-16")
@pytest.mark.parametrize("what", REWRITES)
def test_saved_under_the_key_that_was_looked_up(host: RealHost, tally: Tally, what: str) -> None:
    """What the engine rewrites between measuring and saving does not hide the plan."""
    host.tell(f"{what} between the measurement and the save")
    rewrites = REWRITES[what]
    _boot(host, "KEY-16", rewrites=rewrites)
    second = _boot(host, "KEY-16", rewrites=rewrites)
    tally(boots=2, examples=1)

    if not second.applied:
        raise Violation("KEY-16", host.tale("the second boot did not find the plan"))


@pytest.mark.requirement("SAVE-13")
def test_a_pool_that_nobody_counted_is_not_handed_out(host: RealHost, tally: Tally) -> None:
    """What the worker measures while a pool is missing in its figures is not stored."""
    load = Load(weights=18 * GIB, unseen=10 * GIB, activations=GIB, graphs=0, estimate=0)
    first = _boot(host, "SAVE-13", load=load)
    if (first.suggestion or 0) + load.weights <= first.budget:
        raise UndecidedError(host.tale("what was handed over leaves room for the weights"))
    second = _boot(host, "SAVE-13", load=load)
    tally(boots=2, examples=1)

    if second.applied:
        verdict = (
            f"{gib(second.applied)} were stored beside {gib(load.weights)} of weights, of a budget "
            f"of {gib(first.budget)}"
        )
        raise Violation("SAVE-13", host.tale(verdict))
