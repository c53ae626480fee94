# SPDX-License-Identifier: Apache-2.0
"""Every setting and variable: what moves memory moves the key, and what does not, does not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs import vllm_module
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.stubs.configs import Setting, Variable
    from startup_plan.harness.world.world import World

_NEARLY_ALL: Final = 0.99
"""A utilization at which any setting that takes more than its plan knows runs out of memory."""

_LATER_FIELD: Final = "scratch_buffers_of_a_later_release"
_LATER_VARIABLE: Final = "VLLM_SCRATCH_BUFFERS_OF_A_LATER_RELEASE"


@dataclasses.dataclass(frozen=True, slots=True)
class _Unseen:
    """Two values of one input that share a key though they do not take the same memory."""

    name: str
    change: str
    moved: int
    lighter: Engine
    heavier: Engine


def _engine(change: Callable[[Engine, Any], None], value: Any) -> Engine:
    engine = Engine()
    change(engine, value)
    return engine


def _unseen(
    world: World,
    usual: str,
    name: str,
    change: Callable[[Engine, Any], None],
    amounts: Sequence[tuple[Any, int]],
) -> _Unseen | None:
    """Two values of one input that share a key and do not take the same, or None.

    Args:
        world: where to boot.
        usual: the key of an engine that this input leaves at its default.
        name: the input.
        change: sets it in an engine.
        amounts: its values and the bytes that each takes, the default first.
    """
    seen = {usual: amounts[0]}
    worst: _Unseen | None = None
    for value, taken in amounts[1:]:
        key = keys.sure_key(world, _engine(change, value))
        before, known = seen.setdefault(key, (value, taken))
        moved = abs(taken - known)
        if moved > (worst.moved if worst else 0):
            light, heavy = (before, value) if taken > known else (value, before)
            told = f"{name} changed from {_said(name, light)} to {_said(name, heavy)}"
            worst = _Unseen(name, told, moved, _engine(change, light), _engine(change, heavy))
    return worst


def _judge(world: World, requirement: str, unseen: list[_Unseen], summary: str) -> None:
    if not unseen:
        return
    unseen.sort(key=lambda case: -case.moved)
    names = keys.listed([f"{case.name} ({keys.size(case.moved)})" for case in unseen])
    worst = unseen[0]
    for engine in (worst.lighter, worst.heavier):
        engine.set(UTILIZATION, _NEARLY_ALL)
    change = f"{worst.change}, which takes {keys.size(worst.moved)} more"
    story = keys.reuse(world, worst.lighter, change, worst.heavier)
    missing = [case.name for case in unseen]
    raise Violation(requirement, f"{summary}: {names}\n{story}", missing)


def _set(path: str) -> Callable[[Engine, Any], None]:
    return lambda engine, value: engine.set(path, value)


def _setenv(variable: Variable) -> Callable[[Engine, Any], None]:
    def change(engine: Engine, text: Any) -> None:
        engine.setenv(variable.name, text)
        if variable.hashed and text is not None:
            # It sets a field that the hash reads: a subject may see it there.
            engine.config._hash_salt = text

    return change


def _said(name: str, value: Any) -> str:
    return "unset" if value is None and name.isupper() else keys.shown(value)


def _some(alternates: tuple[Any, ...]) -> tuple[Any, ...]:
    """All of them, or in the inner loop's short run the first."""
    return alternates if profiles.is_thorough() else alternates[:1]


def _later_sections() -> list[str]:
    """Paths of the configuration objects that hold at least one setting that moves memory."""
    found = {setting.path.rpartition(".")[0] for setting in keys.moving_settings()}
    return sorted(path for path in found if "[" not in path and "hf_" not in path)


@pytest.mark.requirement("KEY-10")
def test_every_setting_that_moves_memory_moves_the_key(world: World, tally: Tally) -> None:
    """Any setting that takes memory, changed alone to any of its values, gives another key."""
    usual, unseen, settings = keys.sure_key(world, Engine()), [], keys.moving_settings()
    for setting in settings:
        values = (setting.default, *_some(setting.alternates))
        amounts = [(value, setting.bytes_at(value)) for value in values]
        case = _unseen(world, usual, setting.path, _set(setting.path), amounts)
        unseen += [case] if case else []
        tally(boots=len(values) - 1, examples=1)
    hidden = [case for case in unseen if not stub_configs.setting(case.name).hashed]

    _judge(
        world,
        "KEY-10",
        unseen,
        f"{len(unseen)} of {len(settings)} settings that take memory do not move the key "
        f"({len(hidden)} of them are not in the config hash either)",
    )


@pytest.mark.requirement("KEY-10")
def test_settings_of_a_later_release_are_in(world: World, tally: Tally) -> None:
    """A setting that no list can know yet moves the key, in every section that takes memory."""
    unseen, sections = [], _later_sections()
    for path in sections:

        def change(engine: Engine, value: int, path: str = path) -> None:
            _add_field(engine, path, value)
            engine.hash_override = keys.SAME_HASH
            engine.moved[_LATER_FIELD] = value * GIB

        name = path or "VllmConfig"
        usual = keys.sure_key(world, _engine(change, 0))
        case = _unseen(world, usual, name, change, [(0, 0), (2, 2 * GIB)])
        unseen += [case] if case else []
    tally(boots=2 * len(sections))

    _judge(
        world,
        "KEY-10",
        unseen,
        f"a field that a later release may add is out of the key in {len(unseen)} of "
        f"{len(sections)} sections",
    )


def _add_field(engine: Engine, path: str, value: int) -> None:
    """Give the section at `path` one more field, as another release of its class would have it."""
    parent, _, name = path.rpartition(".")
    section = engine.config
    for step in path.split(".") if path else ():
        section = getattr(section, step)
    base = type(section)
    later = dataclasses.make_dataclass(base.__name__, [(_LATER_FIELD, int, 0)], bases=(base,))
    later.__module__, later.__qualname__ = base.__module__, base.__qualname__
    grown: Any = object.__new__(later)
    vars(grown).update(vars(section), **{_LATER_FIELD: value})
    if not path:
        engine.config = grown
        return
    holder = engine.config
    for step in parent.split(".") if parent else ():
        holder = getattr(holder, step)
    setattr(holder, name, grown)


def _variable_cases(
    world: World, variables: Iterable[Variable], tally: Tally
) -> tuple[list[_Unseen], int]:
    usual, unseen, count = keys.sure_key(world, Engine()), [], 0
    for variable in variables:
        texts = (None, *_some(variable.alternates))
        amounts = [(text, variable.bytes_at(text)) for text in texts]
        case = _unseen(world, usual, variable.name, _setenv(variable), amounts)
        unseen += [case] if case else []
        count += 1
        tally(boots=len(texts) - 1, examples=1)
    return unseen, count


@pytest.mark.requirement("KEY-11")
def test_every_variable_of_vllm_that_moves_memory_moves_the_key(world: World, tally: Tally) -> None:
    """Any registered variable that takes memory, set alone, gives another key."""
    moving = [variable for variable in stub_configs.VARIABLES if variable.moves]
    unseen, count = _variable_cases(world, moving, tally)

    _judge(
        world,
        "KEY-11",
        unseen,
        f"{len(unseen)} of {count} registered variables that take memory do not move the key",
    )


@pytest.mark.requirement("KEY-11")
def test_every_variable_of_the_allocator_and_communicator_moves_the_key(
    world: World, tally: Tally
) -> None:
    """Variables that vLLM does not register, but that take memory, give another key as well."""
    moving = [variable for variable in stub_configs.EXTRA_VARIABLES if variable.moves]
    unseen, count = _variable_cases(world, moving, tally)

    _judge(
        world,
        "KEY-11",
        unseen,
        f"{len(unseen)} of {count} variables of the allocator and the communicator "
        f"do not move the key",
    )


@pytest.mark.requirement("KEY-11")
def test_variables_of_a_later_release_are_in(
    world: World, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that a later vLLM registers and that no list can know yet moves the key."""
    row: dict[str, Any] = {
        "name": _LATER_VARIABLE,
        "kind": "int",
        "default": "0",
        "alternates": ["2"],
    }
    row |= {"hashed": False, "in_compile_factors": True, "moves": True, "size": "big", "source": ""}
    monkeypatch.setitem(vllm_module.REGISTERED, _LATER_VARIABLE, stub_configs.Variable(row))

    def change(engine: Engine, raw: str | None) -> None:
        engine.setenv(_LATER_VARIABLE, raw)
        engine.moved[_LATER_VARIABLE] = GIB * int(raw or 0)

    usual = keys.sure_key(world, Engine())
    case = _unseen(world, usual, _LATER_VARIABLE, change, [(None, 0), ("2", 2 * GIB)])
    tally(boots=2)

    _judge(
        world,
        "KEY-11",
        [case] if case else [],
        "a variable that a later release may register is out of the key",
    )


def _idle_engine(settings: Iterable[Setting], variables: Iterable[Variable]) -> Engine:
    """An engine in which all of these have another value, under one config hash."""
    engine = Engine()
    engine.hash_override = keys.SAME_HASH
    for setting in settings:
        engine.set(setting.path, setting.alternates[0])
    for variable in variables:
        engine.setenv(variable.name, variable.alternates[0])
    return engine


def _needless(world: World, usual: str, tally: Tally) -> tuple[list[str], str]:
    """The idle inputs that move the key, each alone, and what the first of them does to a boot."""
    names, story = [], ""
    cases = [(s.path, _idle_engine([s], [])) for s in keys.idle_settings()]
    cases += [(v.name, _idle_engine([], [v])) for v in keys.idle_variables()]
    for name, engine in cases:
        tally(boots=1)
        if keys.sure_key(world, engine) != usual:
            names.append(name)
            story = story or keys.reuse(world, _idle_engine([], []), f"{name} changed", engine)
    return names, story


@pytest.mark.requirement("KEY-14")
def test_what_takes_no_memory_does_not_move_the_key(world: World, tally: Tally) -> None:
    """Names, seeds, ports, log levels and the like: a boot with others finds the same plan."""
    settings, variables = keys.idle_settings(), keys.idle_variables()
    usual = keys.sure_key(world, _idle_engine([], []))
    # Whole parts, which hide what lies in them when they are gone, are changed one by one.
    whole = [s for s in settings if any(o.path.startswith(f"{s.path}.") for o in settings)]
    leaves = [setting for setting in settings if setting not in whole]
    together = [_idle_engine(leaves, variables), *(_idle_engine([s], []) for s in whole)]
    found = [keys.sure_key(world, engine) for engine in together]
    tally(boots=1 + len(found), examples=len(settings) + len(variables))
    if found == [usual] * len(found):
        return
    names, story = _needless(world, usual, tally)
    count = len(settings) + len(variables)

    if names:
        raise Violation(
            "KEY-14",
            f"{len(names)} of {count} settings and variables that take no memory and are not in "
            f"the config hash move the key: {keys.listed(names)}\n{story}",
        )
    raise Violation(
        "KEY-14", f"{count} settings and variables that take no memory move the key together"
    )
