# SPDX-License-Identifier: Apache-2.0
"""The key changes exactly when the contract says so, over whole histories of changes.

A history changes one input of an engine at a time, takes some changes back, and looks at the key
after each. What it should be is decided by `startup_plan.harness.histories.key_model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import key_model
from startup_plan.harness.histories.key_model import MUST, MUST_NOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.histories.key_model import KeyedEngine, Values
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_NUMBERS: Final = st.integers(0, 2**32 - 1)


class KeyMachine(RuleBasedStateMachine):
    """One engine whose inputs change one at a time.

    Args:
        stage: the engine in its world.
        tally: counts the boots.
    """

    def __init__(self, stage: KeyedEngine, tally: Tally) -> None:
        """Start over."""
        super().__init__()
        tally(examples=1)
        stage.reset({})
        self.stage, self.tally = stage, tally
        self.step = 0
        self.last: tuple[str, Any] | None = None
        self.by_key: dict[str, tuple[str, Values]] = {}
        self.by_inputs: dict[tuple[str, str], tuple[str, Values]] = {}

    def change(self, number: int, *kinds: str) -> None:
        """Give an input of one of these kinds a value.

        Which one, the number decides together with the step: Hypothesis likes to draw a number
        again, and the same change twice would be a step lost.
        """
        self.step += 1
        drawn = crc32(f"{number} {self.step} {self.stage.own}".encode())
        kind = kinds[drawn % len(kinds)]
        if kind == "schema" and not self.stage.has_schema:
            return
        changes = key_model.CHANGES[kind]
        self._put(*changes[drawn // len(kinds) % len(changes)])

    def _put(self, name: str, value: Any) -> None:
        note(f"{name} = {value!r}")
        self.last = (name, self.stage.values.get(name, key_model.usual(name)))
        self.stage.put(name, value)

    @rule(number=_NUMBERS)
    def change_a_setting(self, number: int) -> None:
        """A setting or a variable."""
        self.change(number, "setting", "variable", "undecided")

    @rule(number=_NUMBERS)
    def change_the_engine(self, number: int) -> None:
        """Its budget, its place among others, its config hash, the schema of its plans."""
        self.change(number, "utilization", "rank", "world-size", "replica", "hash", "schema")

    @rule(number=_NUMBERS)
    def change_the_host(self, number: int) -> None:
        """The worker's own device, another one, or the software."""
        self.change(number, "device", "other-device", "runtime", "vllm")

    @rule(number=_NUMBERS)
    def change_what_takes_no_memory(self, number: int) -> None:
        """Names, ports, log levels, ids of each start, the order of mappings, another device."""
        self.change(number, "idle", "idle-variable", "start", "process", "order", "other-device")

    @precondition(lambda self: self.last is not None)
    @rule()
    def take_back(self) -> None:
        """What was there before the last change."""
        if self.last is not None:
            self._put(*self.last)

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


def _instability(stage: KeyedEngine, first: Values, second: Values) -> Violation:
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


def _collision(stage: KeyedEngine, first: Values, second: Values) -> Violation:
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


def _is_blind(stage: KeyedEngine, first: Values, second: Values) -> bool:
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
@pytest.mark.parametrize("own", [0, 1], ids=["device-0", "device-1"])
def test_the_key_over_histories(
    world: World, fresh_folder: Callable[[], Path], tally: Tally, own: int
) -> None:
    """After any history of changes the key is that of equal inputs and of no others."""
    stage = key_model.KeyedEngine(world, fresh_folder(), own)

    class OneEngine(KeyMachine):
        """The engine of this test."""

        def __init__(self) -> None:
            super().__init__(stage, tally)

    run_state_machine_as_test(
        OneEngine,
        settings=settings(
            max_examples=profiles.scaled(75),
            stateful_step_count=15 if profiles.is_thorough() else 8,
            # A failure is made small by `key_model.smallest`, in a few boots.
            phases=[p for p in settings().phases if p not in {Phase.shrink, Phase.explain}],
        ),
    )
