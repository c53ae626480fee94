# SPDX-License-Identifier: Apache-2.0
"""The key changes exactly when the contract says so, over whole histories of changes.

A history changes one input at a time and looks at the key after each change. Inputs are of three
kinds. *Must*: where one differs, the keys differ. *May*: nothing is said while one differs. *Must
not*: where nothing else differs, the keys are equal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from startup_plan.harness import keys, profiles, vllm_configs
from startup_plan.harness.engine import UTILIZATION
from startup_plan.harness.simulation import GIB
from startup_plan.harness.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from startup_plan.harness.plugin_fixtures import Tally
    from startup_plan.harness.vllm_configs import Setting
    from startup_plan.harness.world import World

    Snapshot = tuple[dict[str, str], dict[str, str], dict[str, str]]

_ROOM: Final = 16384 * GIB
_OWNED: Final = {
    "setting": "KEY-10",
    "variable": "KEY-11",
    "utilization": "KEY-02",
    "device": "KEY-03",
    "runtime": "KEY-05",
    "vllm": "KEY-06",
    "rank": "KEY-07",
    "replica": "KEY-08",
    "schema": "KEY-09",
    "hash": "KEY-01",
}
"""First word of an input that must move the key -> the requirement that says so."""

_IDLE: Final = {
    "idle": "KEY-14",
    "idle-variable": "KEY-14",
    "start": "KEY-13",
    "process": "KEY-13",
    "order": "KEY-13",
    "spelling": "KEY-13",
    "other-device": "KEY-04",
}
"""First word of an input that must not move the key -> the requirement that says so."""

_RANKS: Final = ((0, 1), (0, 2), (1, 2), (0, 4), (3, 4))
_TRAITS: Final[Mapping[str, tuple[Any, ...]]] = {
    "name": ("Simulated H200", "Simulated B200"),
    "total": (_ROOM, _ROOM + 1, _ROOM + GIB),
    "capability": ((9, 0), (10, 0), None),
}
_VERSIONS: Final[Mapping[str, tuple[str | None, ...]]] = {
    "vllm": ("0.33.0", "0.33.1"),
    "torch": ("2.13.0", "2.13.1"),
    "cuda": ("13.0", "12.9", None),
    "hip": (None, "7.0", "7.1"),
}


def _leaves(found: Iterable[Setting]) -> list[tuple[str, Any]]:
    """Every value of the settings that hide no other setting when they change."""
    paths = [setting.path for setting in vllm_configs.SETTINGS]
    return [
        (setting.path, value)
        for setting in found
        if setting.path not in keys.NESTED
        and not any(path.startswith((f"{setting.path}.", f"{setting.path}[")) for path in paths)
        for value in (setting.default, *setting.alternates)
    ]


_MOVING: Final = _leaves(keys.moving_settings())
_UNDECIDED: Final = _leaves(
    setting
    for setting in vllm_configs.SETTINGS
    if setting.moves is None or (setting.moves is False and setting.hashed)
)
_AT_REST: Final = _leaves(keys.idle_settings())
_VARIABLES: Final = [
    (variable.name, text)
    for variable in (*vllm_configs.VARIABLES, *vllm_configs.EXTRA_VARIABLES)
    if variable.moves and not variable.hashed
    for text in (None, *variable.alternates)
]
_IDLE_VARIABLES: Final = [
    (variable.name, text)
    for variable in keys.idle_variables()
    for text in (None, *variable.alternates)
]
_STARTS: Final = _leaves(map(vllm_configs.setting, keys.PROCESS_LOCAL))


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


class KeyMachine(RuleBasedStateMachine):
    """One engine whose inputs change one at a time.

    Args:
        world: where it boots.
        folder: an empty folder for the world's disk.
        tally: counts the boots.
        own: the device of its worker, on a host with two.
    """

    def __init__(self, world: World, folder: Path, tally: Tally, own: int) -> None:
        """Start over in an empty world."""
        super().__init__()
        world.again(folder)
        for device in world.devices:
            device.total, device.context = _ROOM, 0
        self.world, self.tally, self.own = world, tally, own
        self.engine = keys.ordered_engine()
        self.engine.placement = (own,)
        self.usual: dict[str, Any] = {}
        self.now: dict[str, Any] = {}
        self.last: tuple[str, Any] | None = None
        self.history: list[str] = []
        self.by_key: dict[str, tuple[int, Snapshot]] = {}
        self.by_inputs: dict[str, tuple[int, str, Snapshot]] = {}
        self.has_schema = world.subject.set_schema(world.subject.fresh(), 1)

    # Changes: each is of one named input, so that it can be taken back.

    def change(self, name: str, before: Any, after: Any) -> None:
        """Give the input `name`, which was `before` in the beginning, the value `after`."""
        self.usual.setdefault(name, before)
        self.last = (name, self.now.get(name, self.usual[name]))
        self.now[name] = after
        self.history.append(f"{name}: {keys.shown(after)}")
        kind, _, rest = name.partition(" ")
        self._apply(kind, rest, after)

    def _apply(self, kind: str, rest: str, value: Any) -> None:
        engine = self.engine
        if kind in {"setting", "undecided", "idle", "start"}:
            engine.set(rest, value)
        elif kind in {"variable", "idle-variable", "process"}:
            engine.setenv(rest, value)
        elif kind == "utilization":
            engine.set(UTILIZATION, value)
        elif kind == "hash":
            engine.hash_override = value
        elif kind in {"device", "other-device"}:
            number = self.own if kind == "device" else 1 - self.own
            setattr(self.world.devices[number], rest, value)
        elif kind in {"runtime", "vllm"}:
            setattr(self.world.runtime, rest or kind, value)
        elif kind == "rank":
            engine.world_size = value[1]
            engine.placement = (self.own,) * value[1]
            engine.set("parallel_config.world_size", value[1])
        elif kind == "replica":
            engine.replica = value
            for field in ("data_parallel_rank", "data_parallel_index", "data_parallel_rank_local"):
                engine.set(f"parallel_config.{field}", value)
        elif kind == "order":
            keys.turn_around(engine)

    def _usual_of(self, path: str) -> Any:
        return vllm_configs.setting(path).default

    @rule(change=st.sampled_from(_MOVING))
    def change_a_setting(self, change: tuple[str, Any]) -> None:
        """A setting that takes memory."""
        self.change(f"setting {change[0]}", self._usual_of(change[0]), change[1])

    @rule(change=st.sampled_from(_UNDECIDED))
    def change_an_undecided_setting(self, change: tuple[str, Any]) -> None:
        """A setting of which only the config hash is known to see it, or nobody knows."""
        self.change(f"undecided {change[0]}", self._usual_of(change[0]), change[1])

    @rule(change=st.sampled_from(_AT_REST))
    def change_an_idle_setting(self, change: tuple[str, Any]) -> None:
        """A setting that takes no memory."""
        self.change(f"idle {change[0]}", self._usual_of(change[0]), change[1])

    @rule(change=st.sampled_from(_VARIABLES))
    def change_a_variable(self, change: tuple[str, str | None]) -> None:
        """A variable that takes memory."""
        name, text = change
        self.change(f"variable {name}", keys.ordered_engine().environ.get(name), text)

    @rule(change=st.sampled_from(_IDLE_VARIABLES))
    def change_an_idle_variable(self, change: tuple[str, str | None]) -> None:
        """A variable that takes no memory."""
        self.change(f"idle-variable {change[0]}", None, change[1])

    @rule(share=st.sampled_from([0.5, 0.8, 0.9, 0.900001, 1.0, 1]))
    def change_the_budget(self, share: float) -> None:
        """`gpu_memory_utilization`."""
        self.change("utilization", self._usual_of(UTILIZATION), share)

    @rule(
        trait=st.sampled_from([(name, value) for name in _TRAITS for value in _TRAITS[name]]),
        own=st.booleans(),
    )
    def change_a_device(self, trait: tuple[str, Any], *, own: bool) -> None:
        """The worker's own device, or the other one."""
        name, value = trait
        kind = "device" if own else "other-device"
        self.change(f"{kind} {name}", _TRAITS[name][0], value)

    @rule(version=st.sampled_from([(n, text) for n in _VERSIONS for text in _VERSIONS[n]]))
    def install(self, version: tuple[str, str | None]) -> None:
        """Another vLLM, torch or accelerator runtime."""
        name, text = version
        called = name if name == "vllm" else f"runtime {name}"
        self.change(called, _VERSIONS[name][0], text)

    @rule(place=st.sampled_from(_RANKS))
    def change_the_rank(self, place: tuple[int, int]) -> None:
        """Rank and world size."""
        self.change("rank", _RANKS[0], place)

    @rule(replica=st.integers(0, 3))
    def change_the_replica(self, replica: int) -> None:
        """The data-parallel rank."""
        self.change("replica", 0, replica)

    @rule(config_hash=st.sampled_from([None, "a" * 10, "b" * 10]))
    def change_the_config_hash(self, config_hash: str | None) -> None:
        """The config hash alone; None lets it follow the settings again."""
        self.change("hash", None, config_hash)

    @precondition(lambda self: self.has_schema)
    @rule(schema=st.sampled_from([1, 2, 3]))
    def change_the_schema(self, schema: int) -> None:
        """The plan schema version."""
        self.change("schema", 1, schema)

    @rule(change=st.sampled_from(_STARTS))
    def start_anew(self, change: tuple[str, Any]) -> None:
        """What each start chooses by itself."""
        self.change(f"start {change[0]}", self._usual_of(change[0]), change[1])

    @rule(name=st.sampled_from(["POD_NAME", "VLLM_PORT"]), text=st.sampled_from(["5555", "6666"]))
    def move_the_process(self, name: str, text: str) -> None:
        """What a process knows of where it runs."""
        self.change(f"process {name}", None, text)

    @rule()
    def turn_around(self) -> None:
        """Mappings and environment in the opposite order."""
        self.change("order", 0, 1 - self.now.get("order", 0))

    @precondition(lambda self: self.last is not None)
    @rule()
    def take_back(self) -> None:
        """What was there before the last change."""
        assert self.last is not None
        name, before = self.last
        self.change(name, self.usual[name], before)

    # Judgement.

    def snapshot(self) -> Snapshot:
        """The inputs as they are: those that must, those that may, and those that must not count.

        Only what differs from the beginning is in it.
        """
        must: dict[str, str] = {}
        may: dict[str, str] = {}
        idle: dict[str, str] = {}
        for name, value in self.now.items():
            kind = name.partition(" ")[0]
            same = float(value) if kind == "utilization" else value
            if _plain(same) == _plain(self.usual[name]):
                continue
            place = must if kind in _OWNED else idle if kind in _IDLE else may
            place[name] = _plain(same)
        if type(self.now.get("utilization")) is int:
            idle["spelling of the utilization"] = "int"
        override = self.engine.hash_override
        must["hash"] = self.engine.config.compute_hash() if override is None else override
        return must, may, idle

    @invariant()
    def the_key_is_right(self) -> None:
        """Equal inputs have the key of before, unequal inputs have a key of their own."""
        rank = self.now.get("rank", _RANKS[0])[0]
        schema = self.now.get("schema", 1) if self.has_schema else None
        key = keys.sure_key(self.world, self.engine, rank, schema=schema)
        number, state = len(self.history) + 1, self.snapshot()
        self.tally(boots=1)
        self._judge_stability(key, number, state)
        self._judge_sensitivity(key, number, state)

    def _judge_stability(self, key: str, number: int, state: Snapshot) -> None:
        known = self.by_inputs.setdefault(_plain(state[:2]), (number, key, state))
        if known[1] == key:
            return
        names = _difference(known[2][2], state[2])
        ids = {_IDLE[name.partition(" ")[0]] for name in names} or {"KEY-13"}
        what = f"only {_differences(names, known[2][2], state[2])}" if names else "nothing differs"
        raise Violation(
            min(ids),
            f"boots {known[0]} and {number} saved plans {known[1]} and {key}, but {what}\n"
            f"{self._told()}",
        )

    def _judge_sensitivity(self, key: str, number: int, state: Snapshot) -> None:
        known = self.by_key.setdefault(key, (number, state))
        names = _difference(known[1][0], state[0])
        if not names:
            return
        # The config hash follows the settings: where something else differs, that is the reason.
        names = [name for name in names if name != "hash"] or names
        ids = {_OWNED[name.partition(" ")[0]] for name in names}
        requirement = ids.pop() if len(ids) == 1 else "KEY-12"
        if requirement == "KEY-03" and self.own and self._is_seen_on_device_0(names):
            requirement = "KEY-04"
        raise Violation(
            requirement,
            f"boots {known[0]} and {number} both saved plan {key}, but "
            f"{_differences(names, known[1][0], state[0])}\n{self._told()}",
        )

    def _is_seen_on_device_0(self, names: list[str]) -> bool:
        """Whether these traits would have moved the key of a worker on device 0."""
        engine = keys.ordered_engine()
        found = set()
        for values in zip(*(_TRAITS[name.partition(" ")[2]][:2] for name in names), strict=True):
            for name, value in zip(names, values, strict=True):
                setattr(self.world.devices[0], name.partition(" ")[2], value)
            found.add(keys.sure_key(self.world, engine))
        return len(found) > 1

    def _told(self) -> str:
        steps = [f"{number}. {step}" for number, step in enumerate(self.history, 2)]
        return f"worker on device {self.own}; boots: " + "; ".join(["1. nothing set", *steps])


def _difference(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    return sorted(
        name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
    )


def _differences(names: list[str], first: Mapping[str, str], second: Mapping[str, str]) -> str:
    told = [
        f"{name} differs ({first.get(name, 'as usual')}, then {second.get(name, 'as usual')})"
        for name in names
    ]
    return " and ".join(told)


@pytest.mark.requirement(*sorted({*_OWNED.values(), *_IDLE.values(), "KEY-12"}))
@pytest.mark.parametrize("own", [0, 1], ids=["device-0", "device-1"])
def test_the_key_over_histories(
    world: World, fresh_folder: Callable[[], Path], tally: Tally, own: int
) -> None:
    """After any history of changes the key is that of equal inputs and of no others."""
    folder = fresh_folder()

    def machine() -> KeyMachine:
        tally(examples=1)
        return KeyMachine(world, folder, tally, own)

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=profiles.scaled(75),
            stateful_step_count=8 if keys.is_quick() else 15,
            # Explaining traces every line of every simulated boot, for a minute.
            phases=[phase for phase in settings().phases if phase is not Phase.explain],
        ),
    )
