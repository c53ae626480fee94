# SPDX-License-Identifier: Apache-2.0
"""The key over one boot: looked up once, used to the end (KEY-16); none, then no plan (KEY-17)."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.stubs.worker import SimulatedWorker
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

_REWRITES: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    "model-length": (("model_config.max_model_len", 224),),
    "block-size": (("cache_config.block_size", 64),),
    "graph-mode": (("compilation_config.cudagraph_mode", "PIECEWISE"),),
    "capture-sizes": (
        ("compilation_config.cudagraph_capture_sizes", [4, 8, 16]),
        ("compilation_config.max_cudagraph_capture_size", 16),
    ),
}
_REWRITES["all"] = tuple(rewrite for rewrites in _REWRITES.values() for rewrite in rewrites)


def _told(rewrites: tuple[tuple[str, Any], ...]) -> str:
    plain = Engine().config
    return " and ".join(
        f"{path} from {stub_configs.get_setting(plain, path)} to {value}"
        for path, value in rewrites
    )


@pytest.mark.requirement("KEY-16")
@pytest.mark.parametrize("case", list(_REWRITES))
def test_the_plan_is_saved_under_the_key_that_was_looked_up(
    world: World, tally: Tally, case: str
) -> None:
    """What vLLM rewrites between look-up and save does not hide the plan from the next boot."""
    engine, rewrites = Engine(), _REWRITES[case]
    usual = keys.sure_key(world, engine)
    again = world.boot(engine)
    engine.rewrites = rewrites
    after, first = keys.look(world, engine)
    second = world.boot(engine)
    tally(boots=4)
    lost = again.applied is not None and second.applied != first.suggestion

    if after != usual or lost:
        raise Violation(
            "KEY-16",
            f"{first}; it had looked for plan {usual}, rewrote {_told(rewrites)}, "
            f"and saved plan {after or 'nowhere'}; the same engine again: {second}",
        )


# KEY-17: an identity that cannot be determined.


def _engine() -> Engine:
    """An engine on device 1 of a host with two kinds of devices: device 0 is no stand-in."""
    return Engine(placement=(1,))


def _mixed(world: World) -> None:
    world.devices[:] = [Device("NVIDIA A100", 40 * GIB, (8, 0)), Device("NVIDIA H100")]


def _deviceless(world: World, *, missing: bool) -> Callable[..., SimulatedWorker]:
    make = world.worker

    def worker(*args: Any, **options: Any) -> SimulatedWorker:
        made: Any = make(*args, **options)
        made.init_snapshot.device = made.init_snapshot.device_ = made.device = None
        if missing:
            del made.device
        del made.local_rank
        world.simulation.current_device = -1  # this process has chosen none
        found: SimulatedWorker = made
        return found

    return worker


_QUERIES: Final = (
    "device_name",
    "device_total_memory",
    "device_capability",
    "torch_version",
    "vllm_version",
    "libraries",
)


def _break(world: World, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, one thing that identifies a worker cannot be had."""
    if case in _QUERIES:
        world.simulation.broken.add(case)
    else:
        worker = _deviceless(world, missing=case == "device missing")
        monkeypatch.setattr(world, "worker", worker)


def _boot(world: World, case: str) -> BootResult:
    if case != "compute_hash":
        return world.boot(_engine())
    broken = keys.failing_config_hash
    return world.boot(_engine(), during_load=broken(), during_save=broken())


def _contents(world: World) -> dict[str, bytes]:
    found = {}
    for path in world.plans():
        with open(path, "rb") as stream:
            found[path] = stream.read()
    return found


def _words(result: BootResult) -> set[str]:
    """The words that an operator sees in the lines of a boot; paths and keys are none."""
    lines = [text for level, text in result.log if level != "debug"]
    return {
        word.lower()
        for line in lines
        for text in line.split()
        if "/" not in text
        for word in re.findall(r"[A-Za-z]{3,}", text)
    }


@pytest.mark.requirement("KEY-17")
@pytest.mark.parametrize("case", [*_QUERIES, "compute_hash", "device None", "device missing"])
def test_without_identity_there_is_no_plan(
    world: World, tally: Tally, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """A query that raises, a device that is not there: no exception, no plan, and a line."""
    _mixed(world)
    usual, plain = keys.look(world, _engine())
    stored = _contents(world)
    if usual is None:
        raise Violation("KEY-17", f"no plan is saved even where everything is known: {plain}")
    if case != "compute_hash":
        _break(world, case, monkeypatch)
    kept = _boot(world, case)
    after = _contents(world)
    keys.clear(world)
    alone = _boot(world, case)
    key = keys.saved_name(world)
    tally(boots=3)
    head = f"{case} is not to be had" if case.startswith("device ") else f"{case} raises"
    for result in (kept, alone):
        if result.raised is not None:
            raise Violation("KEY-17", f"{head}; {result}")
    if key == usual:
        pytest.skip(f"the subject does not ask for this: {case}")

    if key is not None:
        raise Violation("KEY-17", f"{head}; {alone}; it was saved, as plan {key}, not {usual}")
    if kept.applied is not None or after != stored:
        done = "applied" if kept.applied is not None else "changed"
        raise Violation("KEY-17", f"{head}, and the plan of another boot was {done}: {kept}")
    if not _words(alone) - _words(plain):
        raise Violation(
            "KEY-17",
            f"{head}; no plan is used, and the log says no more than where none was found: "
            f"{alone.lines}",
        )


@pytest.mark.requirement("KEY-17")
@pytest.mark.parametrize("case", [*_QUERIES, "compute_hash"])
def test_an_identity_that_is_lost_before_the_save_stops_no_boot(
    world: World, tally: Tally, case: str
) -> None:
    """A query that answered at the look-up and raises at the save raises out of nothing."""

    @contextlib.contextmanager
    def broken() -> Any:
        world.simulation.broken.add(case)
        yield
        world.simulation.broken.clear()

    during = keys.failing_config_hash() if case == "compute_hash" else broken()
    result = world.boot(_engine(), during_save=during)
    tally(boots=1)

    if result.raised is not None:
        raise Violation("KEY-17", f"{case} raises at the save; {result}")
