# SPDX-License-Identifier: Apache-2.0
"""Values that a save must not store, and values that it must store as integers."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.save_trial import NEW, SaveTrial
from startup_plan.harness.stubs.units import GIB, gib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@final
class Unprintable:
    """Neither a number nor fit for a log line."""

    def __repr__(self) -> str:
        """Fail, as objects half built do."""
        raise RuntimeError("no repr")


@final
class Broken:
    """An integer, it says, until it is asked which."""

    def __index__(self) -> int:
        """Fail."""
        raise ValueError("no such integer")


@final
class Whole:
    """An integral type of another library."""

    def __init__(self, value: int) -> None:
        """Stand for `value`."""
        self._value = value

    def __index__(self) -> int:
        """The integer."""
        return self._value


def _senseless(trial: SaveTrial) -> dict[str, object]:
    """Name -> a value that no measurement can have given in the boots of this trial."""
    budget, free = trial.outcome.budget, trial.outcome.free
    return {
        "NaN": float("nan"),
        "infinity": float("inf"),
        "minus infinity": float("-inf"),
        "nothing (None)": None,
        "half a byte": 0.5,
        "a size that is not whole": GIB + 0.5,
        "a boolean": True,
        "False": False,
        "text": "9663676416",
        "empty text": "",
        "bytes": b"9663676416",
        "a complex number": 1j * GIB,
        "a fraction": Fraction(GIB, 3),
        "a decimal NaN": Decimal("NaN"),
        "a list": [NEW],
        "an object": object(),
        "an object that cannot be shown": Unprintable(),
        "an integer that fails": Broken(),
        "zero": 0,
        "minus one": -1,
        "minus 9 GiB": -NEW,
        "one byte more than the budget": budget + 1,
        "one byte more than was free": free + 1,
        "the whole device and a byte": trial.world.devices[0].total + 1,
        "2^63": 2**63,
        "an integer of 5001 digits": 10**5000,
        "a negative integer of 5001 digits": -(10**5000),
    }


@pytest.mark.requirement("SAVE-01")
def test_no_value_makes_a_save_raise(world: World, tally: Tally, over_old: bool) -> None:
    """Whatever is handed over as a measurement, the save raises nothing."""
    trial = SaveTrial(world, over_old=over_old)

    def wrong(name: str, value: object) -> str:
        raised = _save(trial, value)
        return f"{name} ({type(raised).__name__})" if raised is not None else ""

    _judge("SAVE-01", trial, tally, wrong, "values made the save raise")


@pytest.mark.requirement("SAVE-09")
def test_a_senseless_measurement_is_not_stored(world: World, tally: Tally, over_old: bool) -> None:
    """A save that is handed what no measurement gives leaves the plan file as it met it."""
    trial = SaveTrial(world, over_old=over_old)

    def wrong(name: str, value: object) -> str:
        _save(trial, value)
        if not trial.has_changed_plan:
            return ""
        return f"{name} ({gib(trial.next_boot().applied)} applied next)"

    _judge("SAVE-09", trial, tally, wrong, "senseless values were stored")


@pytest.mark.requirement("SAVE-09")
def test_the_reason_for_not_storing_is_logged(world: World, tally: Tally) -> None:
    """A save that declines a value says so, and does not say what a good save says."""
    trial = SaveTrial(world, over_old=True)

    def wrong(name: str, value: object) -> str:
        # One that raises, or stores the value, is judged by the tests above.
        silent = _save(trial, value) is None and trial.is_unchanged
        return name if silent and not trial.says_more_than_success else ""

    _judge("SAVE-09", trial, tally, wrong, "senseless values were dropped without a word")


def _judge(
    requirement: str,
    trial: SaveTrial,
    tally: Tally,
    wrong: Callable[[str, object], str],
    what: str,
) -> None:
    """Try every senseless value, and raise those of which something is wrong."""
    values = _senseless(trial)
    offenders = {name: found for name, value in values.items() if (found := wrong(name, value))}
    tally(examples=len(values), boots=trial.world.boots)

    if offenders:
        raise Violation(
            requirement,
            f"{trial.setting}; {len(offenders)} of {len(values)} {what}: "
            f"{'; '.join(offenders.values())}",
            offenders,
        )


@pytest.mark.requirement("SAVE-09")
def test_other_integral_types_are_stored_as_integers(
    world: World, tally: Tally, over_old: bool
) -> None:
    """An object that stands for an integer is stored, and applied as a plain one."""
    trial = SaveTrial(world, over_old=over_old)
    _check_stored(trial, "an object with __index__", Whole(NEW))
    tally(boots=world.boots)


@pytest.mark.parametrize("kind", ["int64", "uint64"])
@pytest.mark.requirement("SAVE-09")
def test_integers_of_numpy_are_stored_as_integers(world: World, tally: Tally, kind: str) -> None:
    """A numpy integer is stored, and applied as a plain one."""
    numpy: Any = pytest.importorskip("numpy")
    trial = SaveTrial(world, over_old=True)
    _check_stored(trial, f"numpy.{kind}", getattr(numpy, kind)(NEW))
    tally(boots=world.boots)


def _check_stored(trial: SaveTrial, name: str, value: object) -> None:
    raised = _save(trial, value)
    applied = trial.next_boot().applied
    if applied != NEW or type(applied) is not int:
        end = f"raised {trial.brief(raised)}" if raised else "returned"
        raise Violation(
            "SAVE-09",
            f"{trial.setting}; {name} of {gib(NEW)} was handed over; the save {end}; the next boot "
            f"applied {gib(applied)} ({type(applied).__name__})",
        )


def _save(trial: SaveTrial, value: object) -> Exception | None:
    """Save `value`, None included; the exception that came out."""
    return trial.save(_handing_over(trial.world, value), value=NEW).raised


@contextlib.contextmanager
def _handing_over(world: World, value: object) -> Iterator[None]:
    """Have the subject's save get `value`: for `World.boot`, None means what was measured."""
    module: Any = world.subject.instances[-1]
    function = module.maybe_save_startup_plan
    module.maybe_save_startup_plan = lambda worker, _: function(worker, value)
    try:
        yield
    finally:
        module.maybe_save_startup_plan = function
