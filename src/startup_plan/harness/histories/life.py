# SPDX-License-Identifier: Apache-2.0
"""The *life* state machine: any history of boots, and of what happens to an engine between them.

One machine serves all requirements that every boot must keep (`life_judges`); a run judges one of
them, so that each gets the shortest history that breaks it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.faults import Trace, kill_at
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.stubs import backends
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.harness.world.reader import OPTIONAL, stripped

from .history import Event, History, base_of, short
from .judges import JUDGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.world.world import World

STEPS: Final = 20
"""Rules per history at most."""

_UTILIZATIONS: Final = (0.8, 0.5, 0.9, 0.6)
_TENANTS: Final = (0, MIB, GIB, 6 * GIB + 1, 15 * GIB, 30 * GIB)
_GROWTH: Final = (0, 2 * MIB, GIB, 2 * GIB)
_EXPLICIT: Final = (None, 2 * GIB, 0)
_DEVICES: Final[tuple[tuple[str, int, tuple[int, int] | None], ...]] = (
    ("Simulated H200", 80 * GIB, (9, 0)),
    ("Simulated H100", 80 * GIB, (9, 0)),
    ("Simulated H200", 96 * GIB, (9, 0)),
    ("Simulated H200", 80 * GIB, (10, 0)),
)
_BACKEND: Final = backends.chosen()
_UPGRADES: Final = (
    ("vllm", "0.33.0"), ("torch", "2.13.0"), (_BACKEND.name, _BACKEND.release),
    ("vllm", "0.34.0"), ("torch", "2.14.0"), (_BACKEND.name, "13.1"),
    *((("cuda", None), ("hip", "7.2"), ("hip", None)) if _BACKEND.name == "cuda" else ()),
)  # fmt: skip
_ENGINES: Final[dict[str, Callable[[str], Engine]]] = {
    "engine": lambda name: stripped(Engine(name)),
    "replica 0": lambda name: stripped(Engine(name, replica=0, replicas=2)),
    "replica 1": lambda name: stripped(Engine(name, replica=1, replicas=2, placement=(1,))),
    "pair": lambda name: stripped(Engine(name, world_size=2)),
}
_BOOTS: Final = st.sampled_from((0, 1, 2))
_NOTHING: Final = ("", None, None)
# The fields of ParallelConfig would contradict how the world places the ranks.
_CHANGES: Final[tuple[tuple[str, Any, Any], ...]] = (
    _NOTHING,
    *(
        (found.path, found.alternates[0], found.default)
        for found in stub_configs.SETTINGS
        if found.moves and found.path != UTILIZATION
        if not found.path.startswith(("parallel_", *OPTIONAL))
    ),
    *(
        (found.name, found.alternates[0], None)
        for found in (*stub_configs.VARIABLES, *stub_configs.EXTRA_VARIABLES)
        if found.moves
    ),
)
_DAMAGE: Final[dict[str, Callable[[bytes], bytes]]] = {
    "emptied": lambda _: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "overwritten with zeros": lambda data: bytes(len(data)),
    "overwritten with []": lambda _: b"[]",
    "overwritten with garbage": lambda data: bytes(i * 37 % 251 for i in range(len(data))),
    "changed in one bit": lambda data: bytes(
        byte ^ (position == len(data) // 2) for position, byte in enumerate(data)
    ),
}


class Life(RuleBasedStateMachine):
    """One host, one disk, a few deployments, and time.

    Args:
        world: an entered world, started over for this history.
        folder: an empty folder; removed at the end.
        judged: the requirement that is judged.
    """

    def __init__(self, world: World, folder: Path, judged: str) -> None:
        """Nothing has happened yet."""
        super().__init__()
        world.again(folder)
        world.watches_hash = judged == "BOOT-05"
        self._world = world
        self._folder = folder
        self._judged = judged
        self._judge = JUDGES[judged]
        self._history = History()
        self._moves = 0
        self._engines = {"engine": _ENGINES["engine"]("engine")}
        self._engine = self._engines["engine"]
        self._changed = {"engine": _NOTHING}

    def teardown(self) -> None:
        """Leave nothing on the disk."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @rule(times=st.integers(1, 3))
    def boot(self, times: int) -> None:
        """The engine boots, and is restarted."""
        self._start(times)

    @rule(at=st.integers(1, 12), boots=_BOOTS)
    def killed_boot(self, at: int, boots: int) -> None:
        """The engine boots and is killed in the middle of a save."""
        root = self._world.cache_root
        with patched(root, self._world.subject):
            self._boot(0, kill_at(root, at))
        self._start(boots)

    @rule(value=st.sampled_from(_UTILIZATIONS), boots=_BOOTS)
    def utilization(self, value: float, boots: int) -> None:
        """The operator gives the engine another share of its device."""
        before = self._engine.utilization
        self._engine.set(UTILIZATION, value)
        moved = "lowered" if value < before else "raised"
        self._then(boots, f"{moved} to {value:g}" if value != before else "")

    @rule(size=st.sampled_from(_TENANTS), boots=_BOOTS)
    def co_tenant(self, size: int, boots: int) -> None:
        """A co-tenant of the engine's device comes, grows, shrinks or leaves."""
        self._world.device_of(self._engine).tenants["other"] = size
        self._then(boots, f"a co-tenant holds {short(size)}")

    @rule(growth=st.sampled_from(_GROWTH), boots=_BOOTS)
    def checkpoint(self, growth: int, boots: int) -> None:
        """The checkpoint under the same path is replaced by a heavier one, or by the first."""
        self._engine.heavier_weights = growth
        self._then(boots, f"the weights are {short(growth)} heavier than at first")

    @rule(change=st.sampled_from(_CHANGES), boots=_BOOTS)
    def setting(self, change: tuple[str, Any, Any], boots: int) -> None:
        """One setting or variable that takes memory is changed; the one changed before is reset."""
        name = self._engine.name
        for path, value in (self._changed[name][::2], change[:2]):
            if "." in path or path.endswith("_config"):
                self._engine.set(path, value)
            elif path:
                self._engine.setenv(path, value)
        self._changed[name] = change
        what = f"{change[0]} set to {change[1]!r}" if change[0] else "settings are as at first"
        self._then(boots, what)

    @rule(change=st.sampled_from(_UPGRADES), boots=_BOOTS)
    def upgrade(self, change: tuple[str, str | None], boots: int) -> None:
        """Another version of the software is installed, or another build of torch."""
        setattr(self._world.runtime, *change)
        self._then(boots, f"{change[0]} is now {change[1]}")

    @rule(kind=st.sampled_from(_DEVICES), boots=_BOOTS)
    def swap_device(self, kind: tuple[str, int, tuple[int, int] | None], boots: int) -> None:
        """The engine's device is replaced by another."""
        device = self._world.device_of(self._engine)
        device.name, device.total, device.capability = kind
        self._then(boots, f"the device is a {kind[0]} of {short(kind[1])}, capability {kind[2]}")

    @rule(value=st.sampled_from(_EXPLICIT), boots=_BOOTS)
    def explicit(self, value: int | None, boots: int) -> None:
        """The operator sets the KV-cache size by hand, or no longer."""
        self._engine.explicit = value
        self._then(boots, f"kv_cache_memory_bytes set to {value}")

    @rule(on=st.booleans(), boots=_BOOTS)
    def flag(self, on: bool, boots: int) -> None:
        """The feature is switched on or off."""
        self._engine.enabled = on
        self._then(boots, f"feature switched {'on' if on else 'off'}")

    @rule(boots=_BOOTS)
    def relocate(self, boots: int) -> None:
        """The cache root is moved."""
        world = self._world
        self._moves += 1
        root = os.path.join(self._folder, f"cache{self._moves}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(world.cache_root, root)
        world.cache_root = root
        self._history.relocated()
        self._then(boots, "the cache root was moved")

    @rule(name=st.sampled_from(tuple(_ENGINES)), boots=_BOOTS)
    def engine(self, name: str, boots: int) -> None:
        """It is another engine's turn: a replica, or one with two ranks."""
        if name not in self._engines:
            self._engines[name] = _ENGINES[name](name)
            self._changed[name] = _NOTHING
        self._engine = self._engines[name]
        self._then(boots, "")

    @precondition(lambda self: self._history.plans)
    @rule(which=st.integers(0, 3), how=st.sampled_from(tuple(_DAMAGE)), boots=_BOOTS)
    def corrupt(self, which: int, how: str, boots: int) -> None:
        """Something damages a plan file."""
        path = self._plan(which)
        with open(path, "rb") as stream:
            data = stream.read()
        with open(path, "wb") as stream:
            stream.write(_DAMAGE[how](data))
        self._history.meddled(self._world.plan_folder)
        self._then(boots, f"a plan file was {how}")

    @precondition(lambda self: len(self._history.plans) > 1)
    @rule(which=st.integers(0, 3), over=st.integers(0, 3), boots=_BOOTS)
    def copy_over(self, which: int, over: int, boots: int) -> None:
        """Somebody copies one plan over another."""
        with contextlib.suppress(shutil.SameFileError):
            shutil.copyfile(self._plan(which), self._plan(over))
        self._history.meddled(self._world.plan_folder)
        self._then(boots, "a plan file was copied over another")

    def _plan(self, number: int) -> str:
        names = self._history.plans
        return os.path.join(self._world.plan_folder, names[number % len(names)])

    def _then(self, boots: int, clause: str) -> None:
        """Tell what has happened, and boot a few times after it."""
        if clause:
            self._history.story.append(clause)
        self._start(boots)

    def _start(self, times: int) -> None:
        for _ in range(times):
            for rank in range(self._engine.world_size):
                self._boot(rank, None)

    def _boot(self, rank: int, kill: Trace | None) -> None:
        world, engine, history = self._world, self._engine, self._history
        key = (base_of(world, engine, rank), engine.utilization)
        result = world.boot(engine, rank, during_save=kill)
        event = Event(result, key, engine, interrupted=kill is not None and kill.fired)
        history.observe(event, world.plan_folder)
        verdict = self._judge(history, event)
        history.story.append(str(event))
        if verdict is not None:
            raise Violation(self._judged, "; ".join([*history.story, verdict]))
        history.settle(event)


def live(
    world: World,
    make_folder: Callable[[], Path],
    judged: str,
    *,
    histories: int,
    count: Callable[..., None],
) -> None:
    """Let many histories happen and judge every boot in them.

    Args:
        world: an entered world.
        make_folder: makes an empty folder, on a fast disk, for each history.
        judged: the requirement to judge.
        histories: how many to try.
        count: is told in the end how many `boots` and `examples` there were.

    Raises:
        Violation: the shortest history found in which the requirement is broken.
    """
    tried, booted = 0, world.boots

    def begin() -> Life:
        nonlocal tried
        tried += 1
        return Life(world, make_folder(), judged)

    # Explaining traces every line that a subject runs, which makes shrinking ten times as slow.
    phases = [phase for phase in settings().phases if phase is not Phase.explain]
    try:
        run_state_machine_as_test(
            begin,  # type: ignore[arg-type]  # any factory will do, says its documentation
            settings=settings(max_examples=histories, stateful_step_count=STEPS, phases=phases),
        )
    finally:
        count(boots=world.boots - booted, examples=tried)
