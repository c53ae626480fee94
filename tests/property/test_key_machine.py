# SPDX-License-Identifier: Apache-2.0
"""The key changes exactly when the contract says so, over whole histories of changes.

A history changes one input of an engine at a time, takes some changes back, and looks at the key
after each. What it should be is decided by `startup_plan.harness.key_model`.
"""

from __future__ import annotations

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

from startup_plan.harness import key_model, keys, profiles
from startup_plan.harness.key_model import MUST, MUST_NOT, SETTINGS, TRAITS, VARIABLES, VERSIONS
from startup_plan.harness.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.key_model import Stage, Values
    from startup_plan.harness.plugin_fixtures import Tally
    from startup_plan.harness.world import World

_TRAITS: Final = [(name, value) for name, values in TRAITS.items() for value in values]
_VERSIONS: Final = [(name, text) for name, texts in VERSIONS.items() for text in texts]


def _of(kind: str) -> st.SearchStrategy[tuple[str, Any]]:
    """Inputs of one kind and values for them."""
    choices: list[tuple[str, Any]] = [*SETTINGS.get(kind, ()), *VARIABLES.get(kind, ())]
    return st.sampled_from([(f"{kind} {name}", value) for name, value in choices])


class KeyMachine(RuleBasedStateMachine):
    """One engine whose inputs change one at a time.

    Args:
        stage: the engine in its world.
        tally: counts the boots.
    """

    def __init__(self, stage: Stage, tally: Tally) -> None:
        """Start over."""
        super().__init__()
        stage.reset({})
        self.stage, self.tally = stage, tally
        self.last: tuple[str, Any] | None = None
        self.by_key: dict[str, tuple[str, Values]] = {}
        self.by_inputs: dict[tuple[str, str], tuple[str, Values]] = {}

    def change(self, name: str, value: Any) -> None:
        """Give one input a value, and remember how to take that back."""
        self.last = (name, self.stage.values.get(name, key_model.usual(name)))
        self.stage.put(name, value)

    @rule(change=_of("setting"))
    def change_a_setting(self, change: tuple[str, Any]) -> None:
        """A setting that takes memory."""
        self.change(*change)

    @rule(change=_of("variable"))
    def change_a_variable(self, change: tuple[str, Any]) -> None:
        """A variable that takes memory."""
        self.change(*change)

    @rule(change=_of("undecided"))
    def change_an_undecided_setting(self, change: tuple[str, Any]) -> None:
        """A setting that is known to count only as far as the config hash sees it."""
        self.change(*change)

    @rule(change=st.one_of(_of("idle"), _of("idle-variable"), _of("start"), _of("process")))
    def change_what_takes_no_memory(self, change: tuple[str, Any]) -> None:
        """Names, ports, log levels, what each start chooses by itself, where a process runs."""
        self.change(*change)

    @rule(share=st.sampled_from([0.5, 0.8, 0.9, 0.900001, 1.0, 1]))
    def change_the_budget(self, share: float) -> None:
        """`gpu_memory_utilization`."""
        self.change("utilization", share)

    @rule(trait=st.sampled_from(_TRAITS))
    def change_the_device(self, trait: tuple[str, Any]) -> None:
        """The worker's own device."""
        self.change(f"device {trait[0]}", trait[1])

    @rule(version=st.sampled_from(_VERSIONS))
    def install(self, version: tuple[str, str | None]) -> None:
        """Another vLLM, torch or accelerator runtime."""
        name = "vllm" if version[0] == "vllm" else f"runtime {version[0]}"
        self.change(name, version[1])

    @rule(rank=st.sampled_from(key_model.RANKS))
    def change_the_rank(self, rank: int) -> None:
        """The rank in a group of one size."""
        self.change("rank", rank)

    @rule(world_size=st.sampled_from(key_model.WORLD_SIZES))
    def change_the_world_size(self, world_size: int) -> None:
        """The size of the group of one rank."""
        self.change("world-size", world_size)

    @rule(replica=st.integers(0, 3))
    def change_the_replica(self, replica: int) -> None:
        """The data-parallel rank."""
        self.change("replica", replica)

    @rule(config_hash=st.sampled_from([None, "a" * 10, "b" * 10]))
    def change_the_config_hash(self, config_hash: str | None) -> None:
        """The config hash alone; None lets it follow the settings again."""
        self.change("hash", config_hash)

    @precondition(lambda self: self.stage.has_schema)
    @rule(schema=st.sampled_from([1, 2, 3]))
    def change_the_schema(self, schema: int) -> None:
        """The plan schema version."""
        self.change("schema", schema)

    @rule()
    def turn_around(self) -> None:
        """Mappings and environment in the opposite order."""
        self.change("order", 1 - self.stage.values.get("order", 0))

    @precondition(lambda self: self.last is not None)
    @rule()
    def take_back(self) -> None:
        """What was there before the last change."""
        if self.last is not None:
            self.change(*self.last)

    @invariant()
    def the_key_is_right(self) -> None:
        """Equal inputs have the key of before, unequal inputs have a key of their own."""
        key, sorts, values = self.stage.key(), self.stage.sorts(), dict(self.stage.values)
        self.tally(boots=1)
        usual_key, before = self.by_inputs.setdefault(sorts, (key, values))
        if usual_key != key:
            raise _instability(self.stage, before, values)
        must, before = self.by_key.setdefault(key, (sorts[0], values))
        if must != sorts[0]:
            raise _collision(self.stage, before, values)


class MixedHostMachine(KeyMachine):
    """The same on the second device of a host whose first one changes as well."""

    @rule(trait=st.sampled_from(_TRAITS))
    def change_another_device(self, trait: tuple[str, Any]) -> None:
        """Device 0, on which the worker does not run."""
        self.change(f"other-device {trait[0]}", trait[1])


def _instability(stage: Stage, first: Values, second: Values) -> Violation:
    """What to say of two boots that should share a key and do not."""

    def fails(one: Values, other: Values) -> bool:
        seen = []
        for values in (one, other):
            stage.reset(values)
            seen.append((stage.sorts(), stage.key()))
        return seen[0][0] == seen[1][0] and seen[0][1] != seen[1][1]

    first, second = key_model.smallest(first, second, fails)
    names = key_model.differing(first, second)
    ids = sorted({MUST_NOT.get(name.partition(" ")[0], "KEY-13") for name in names})
    return Violation(
        # Inputs that count, as the utilization, differ here only in their spelling.
        ids[0] if ids else "KEY-13",
        f"a worker on device {stage.own} boots with {key_model.told(first)} set, then with "
        f"{key_model.told(second)} set: it looks for another plan, though "
        f"{' and '.join(names) or 'nothing'} changes no memory",
    )


def _collision(stage: Stage, first: Values, second: Values) -> Violation:
    """What to say of two boots that should have keys of their own and share one."""

    def fails(one: Values, other: Values) -> bool:
        seen = []
        for values in (one, other):
            stage.reset(values)
            seen.append((stage.sorts()[0], stage.key()))
        return seen[0][0] != seen[1][0] and seen[0][1] == seen[1][1]

    first, second = key_model.smallest(first, second, fails)
    ids = {
        MUST.get(name.partition(" ")[0], "KEY-01") for name in key_model.differing(first, second)
    }
    requirement = ids.pop() if len(ids) == 1 else "KEY-12"
    if requirement == "KEY-03" and stage.own and not _is_blind(stage, first, second):
        requirement = "KEY-04"
    return Violation(
        requirement,
        f"a worker on device {stage.own} boots with {key_model.told(first)} set, then with "
        f"{key_model.told(second)} set: both boots look for the same plan",
    )


def _is_blind(stage: Stage, first: Values, second: Values) -> bool:
    """Whether the subject would not tell the two devices apart on device 0 either."""
    stage.own = 0
    try:
        found = set()
        for values in (first, second):
            stage.reset(values)
            found.add(stage.key())
    finally:
        stage.own = 1
    return len(found) == 1


@pytest.mark.requirement(*sorted({*MUST.values(), *MUST_NOT.values(), "KEY-12"}))
@pytest.mark.parametrize(
    ("kind", "own"),
    [pytest.param(KeyMachine, 0, id="one-device"), pytest.param(MixedHostMachine, 1, id="mixed-host")],
)
def test_the_key_over_histories(
    world: World,
    fresh_folder: Callable[[], Path],
    tally: Tally,
    kind: Callable[[Stage, Tally], KeyMachine],
    own: int,
) -> None:
    """After any history of changes the key is that of equal inputs and of no others."""
    stage = key_model.Stage(world, fresh_folder(), own)

    def machine() -> KeyMachine:
        tally(examples=1)
        return kind(stage, tally)

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=profiles.scaled(75),
            stateful_step_count=8 if keys.is_quick() else 15,
            # A failure is made small by `key_model.smallest`, in a few boots.
            phases=[p for p in settings().phases if p not in {Phase.shrink, Phase.explain}],
        ),
    )
