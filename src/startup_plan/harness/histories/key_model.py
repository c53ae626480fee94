# SPDX-License-Identifier: Apache-2.0
"""What the contract says about the key of an engine whose inputs are known by name.

An input is named by its kind and, where there are many of a kind, by which one it is:
`utilization`, `setting cache_config.block_size`, `other-device name`. Inputs are of three sorts.
Where one that *must* count differs, keys differ. While one that *may* count differs, nothing is
said. Where only inputs that *must not* count differ, keys are equal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs import backends
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION
from startup_plan.harness.world.subject import other_schemas

from . import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from startup_plan.harness.stubs.configs import Setting
    from startup_plan.harness.world.subject import Schema
    from startup_plan.harness.world.world import World

    Values = Mapping[str, Any]

MUST: Final[Mapping[str, str]] = {
    "setting": "KEY-10",
    "variable": "KEY-11",
    "utilization": "KEY-02",
    "device": "KEY-03",
    "runtime": "KEY-05",
    "vllm": "KEY-06",
    "rank": "KEY-07",
    "world-size": "KEY-07",
    "replica": "KEY-08",
    "schema": "KEY-09",
    "hash": "KEY-01",
}
"""Kind of an input that must count -> the requirement that says so."""

MUST_NOT: Final[Mapping[str, str]] = {
    "idle": "KEY-14",
    "idle-variable": "KEY-14",
    "start": "KEY-13",
    "process": "KEY-13",
    "order": "KEY-13",
    "spelling": "KEY-13",
    "other-device": "KEY-04",
}
"""Kind of an input that must not count -> the requirement that says so."""

_ROOM: Final = 16384 * GIB
_WORLD_SIZE: Final = 4
_REPLICA_FIELDS: Final = ("data_parallel_rank", "data_parallel_index", "data_parallel_rank_local")
_BACKEND: Final = backends.chosen()
_TRAITS: Final[Mapping[str, tuple[Any, ...]]] = {
    "total": (_ROOM, _ROOM + 1, _ROOM + GIB),
    **({} if _BACKEND.named == "first" else {"name": (_BACKEND.product, "Simulated B200")}),
    **({"capability": ((9, 0), (10, 0), None)} if _BACKEND.rates_each else {}),
}
"""What tells devices of one host apart, on this backend."""
_RUNTIMES: Final[Mapping[str, tuple[Any, ...]]] = {
    f"runtime {_BACKEND.name}": (_BACKEND.release, "12.9"),
    **(
        {"runtime cuda": ("13.0", "12.9", None), "runtime hip": (None, "7.0", "7.1")}
        if _BACKEND.name == "cuda"
        else {}
    ),
}


def _leaves(found: Iterable[Setting]) -> list[tuple[str, Any]]:
    """Every value of the settings that hide no other setting when they change."""
    paths = [setting.path for setting in stub_configs.SETTINGS]
    return [
        (setting.path, value)
        for setting in found
        if setting.path not in keys.NESTED
        and not any(path.startswith((f"{setting.path}.", f"{setting.path}[")) for path in paths)
        for value in (setting.default, *setting.alternates)
    ]


_SETTINGS: Final[Mapping[str, list[tuple[str, Any]]]] = {
    "setting": _leaves(keys.moving_settings()),
    "idle": _leaves(keys.idle_settings()),
    "start": _leaves(map(stub_configs.setting, keys.PROCESS_LOCAL)),
    "undecided": _leaves(
        setting
        for setting in stub_configs.SETTINGS
        if setting.moves is None or (setting.moves is False and setting.hashed)
    ),
}
_VARIABLES: Final[Mapping[str, list[tuple[str, str | None]]]] = {
    "variable": [
        (variable.name, text)
        for variable in (*stub_configs.VARIABLES, *stub_configs.EXTRA_VARIABLES)
        if variable.moves and not variable.hashed
        for text in (None, *variable.alternates)
    ],
    "idle-variable": [
        (variable.name, text)
        for variable in keys.idle_variables()
        for text in (None, *variable.alternates)
    ],
    "process": [
        (name, text) for name in ("POD_NAME", "VLLM_PORT") for text in (None, "5555", "6666")
    ],
}
_OTHERS: Final[Mapping[str, tuple[Any, ...]]] = {
    "utilization": (stub_configs.setting(UTILIZATION).default, 0.5, 0.8, 0.800001, 1.0, 1),
    "rank": tuple(range(_WORLD_SIZE)),
    "world-size": (_WORLD_SIZE, 5, 8),
    "replica": (0, 1, 2, 3),
    "schema": (1, 2, 3),
    "hash": (None, "a" * 10, "b" * 10),
    "order of mappings and variables": ("as written", "reversed"),
    "vllm": ("0.33.0", "0.33.1"),
    "runtime torch": ("2.13.0", "2.13.1"),
    **_RUNTIMES,
    **{f"{kind} {name}": _TRAITS[name] for kind in ("device", "other-device") for name in _TRAITS},
}
"""Input -> its values, the usual one first."""

CHANGES: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    **{
        kind: [(f"{kind} {name}", value) for name, value in choices]
        for kind, choices in (*_SETTINGS.items(), *_VARIABLES.items())
    },
    **{
        kind: [
            (name, value)
            for name, values in _OTHERS.items()
            if name.partition(" ")[0] == kind
            for value in values
        ]
        for kind in {name.partition(" ")[0]: None for name in _OTHERS}
    },
}
"""Kind -> the inputs of that kind, each with every value that it can be given.

A setting that is `undecided` may count, and does as far as the config hash sees it.
"""

_FIRST_ENVIRON: Final = dict(keys.ordered_engine().environ)


def usual(name: str) -> Any:
    """The value that an input has in the beginning."""
    kind, _, rest = name.partition(" ")
    if kind in _SETTINGS:
        return stub_configs.setting(rest).default
    return _FIRST_ENVIRON.get(rest) if kind in _VARIABLES else _OTHERS[name][0]


@final
class KeyedEngine:
    """One engine in its world, and the inputs that it has now.

    Args:
        world: where it boots.
        folder: an empty folder for the world's disk.
        own: the device of its worker, on a host with two.

    Attributes:
        values: the inputs that are not as in the beginning.
    """

    def __init__(self, world: World, folder: Path, own: int) -> None:
        """Begin as in the beginning."""
        self.world, self.own, self._folder = world, own, folder
        first = world.subject.schema
        self._schemas: tuple[Schema, ...] = () if first is None else (first, *other_schemas(first))
        self.values: dict[str, Any] = {}
        self.reset({})

    @property
    def has_schema(self) -> bool:
        """Whether the subject has a plan schema version that can be another."""
        return bool(self._schemas)

    def reset(self, values: Values) -> None:
        """Start over with these inputs."""
        self.world.again(self._folder)
        for device in self.world.devices:
            device.total, device.context = _ROOM, 0
        self.engine = keys.ordered_engine()
        self._gather(_WORLD_SIZE)
        self.values = {}
        for name, value in values.items():
            self.put(name, value)

    def put(self, name: str, value: Any) -> None:
        """Give one input a value."""
        before = self.values.get(name, usual(name))
        if _plain(value) == _plain(usual(name)):
            self.values.pop(name, None)
        else:
            self.values[name] = value
        kind, _, rest = name.partition(" ")
        engine = self.engine
        if kind in _SETTINGS:
            engine.set(rest, value)
        elif kind in _VARIABLES:
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
        elif kind == "world-size":
            self._gather(value)
        elif kind == "replica":
            engine.replica = value
            for field in _REPLICA_FIELDS:
                engine.set(f"parallel_config.{field}", value)
        elif kind == "order" and value != before:
            keys.turn_around(engine)

    def _gather(self, world_size: int) -> None:
        """Let the engine have so many ranks, all on one device."""
        self.engine.world_size = world_size
        self.engine.placement = (self.own,) * world_size
        self.engine.set("parallel_config.world_size", world_size)

    def key(self) -> str:
        """The key of the engine as it is.

        Raises:
            Violation: none can be seen.
        """
        rank = self.values.get("rank", 0)
        # The first is the subject's own, which needs no telling.
        number = self.values.get("schema", 1) - 1
        schema = self._schemas[number] if self._schemas and number else None
        return keys.sure_key(self.world, self.engine, rank, schema=schema)

    def sorts(self) -> tuple[str, str]:
        """The inputs that must count, and those that may, each as one text."""
        must: dict[str, Any] = {}
        may: dict[str, Any] = {}
        for name, value in self.values.items():
            kind = name.partition(" ")[0]
            if kind in MUST:
                must[name] = float(value) if kind == "utilization" else value
            elif kind not in MUST_NOT:
                may[name] = value
        override = self.engine.hash_override
        must["hash"] = self.engine.config.compute_hash() if override is None else override
        return _plain(must), _plain(may)


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def differing(first: Values, second: Values) -> list[str]:
    """The names of the inputs that are not the same in both."""
    names = {**first, **second}
    return sorted(name for name in names if _text(first, name) != _text(second, name))


def _text(values: Values, name: str) -> str:
    return _plain(values.get(name, usual(name)))


def smallest(
    first: Values, second: Values, fails: Callable[[Values, Values], bool]
) -> tuple[Values, Values]:
    """The pair with as little set as possible for which `fails` still holds.

    What both have in common goes first, then what differs and need not. That takes a few boots for
    each input, where shrinking the whole history takes thousands.
    """
    if not fails(first, second):
        return first, second  # it takes the history as it was
    for candidate in _smaller(first, second):
        if fails(*candidate):
            return smallest(*candidate, fails)
    return first, second


def _smaller(first: Values, second: Values) -> Iterator[tuple[Values, Values]]:
    for name in {**first, **second}:
        without = [
            {key: v for key, v in values.items() if key != name} for values in (first, second)
        ]
        yield without[0], without[1]
    for name in differing(first, second):
        yield first, {**second, name: first.get(name, usual(name))}


def told(values: Values) -> str:
    """The inputs for a story."""
    return ", ".join(f"{name}={keys.shown(value)}" for name, value in values.items()) or "nothing"
