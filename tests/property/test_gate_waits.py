# SPDX-License-Identifier: Apache-2.0
"""GATE-09: a look-up decides on one reading of its device and waits for nothing.

What a look-up does where there is no plan, and where it applies one, is the measure of all others:
a subject that takes its time, always the same, waits for nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from startup_plan.harness.contract.violation import UndecidedError, Violation
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION
from startup_plan.harness.world.patience import SECONDS, Effort, look
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.reader import Saved
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("GATE-09")

_GARBAGE: Final = b"this is no plan"
_GONE: Final = 36 * GIB
"""What a neighbour holds until the plan is saved: more than a boot takes before its look-up."""


class Case(NamedTuple):
    """What a look-up finds.

    Attributes:
        short: bytes that the worker found free less than the baseline.
        returned: whether they are free again when it looks its plan up.
        heavier: bytes that the weights take more.
        bytes_there: what lies there instead of the plan: nothing if it is empty.
    """

    short: int = 0
    returned: bool = False
    heavier: int = 0
    bytes_there: bytes | None = None


ABSENT: Final = Case(bytes_there=b"")
APPLIED: Final = Case()

CASES: Final = {
    "two GiB less than the baseline were free": Case(short=2 * GIB),
    "one byte less than the baseline was free": Case(short=1),
    "two GiB less were free, and far more has come back since": Case(short=2 * GIB, returned=True),
    "the weights are one GiB heavier": Case(heavier=GIB),
    "garbage lay there instead": Case(bytes_there=_GARBAGE),
    "no plan lay there, and two GiB less were free": Case(short=2 * GIB, bytes_there=b""),
}
"""What a story says of a look-up that applies nothing -> the case."""


def _lay(saved: Saved, case: Case) -> None:
    path = Path(saved.path)
    path.unlink(missing_ok=True)
    data = saved.data if case.bytes_there is None else case.bytes_there
    if data:
        path.write_bytes(data)


def _engine() -> Engine:
    engine = plain_engine()
    engine.set(UTILIZATION, 0.5)
    return engine


def _saved(world: World) -> Saved:
    """Save a plan beside a neighbour that goes afterwards."""
    tenants = world.devices[0].tenants
    tenants["neighbour"] = _GONE
    saved = save_plan(world, _engine())
    del tenants["neighbour"]
    return saved


def _look(world: World, saved: Saved, case: Case) -> Effort:
    engine = _engine()
    engine.heavier_weights = case.heavier
    with Reader(world, engine, free=saved.baseline - case.short, returned=case.returned) as reader:
        return look(reader)


def _usual(world: World, saved: Saved) -> tuple[Effort, Effort]:
    """What it takes to find no plan, and to apply one.

    Raises:
        UndecidedError: not even that comes back.
    """
    _lay(saved, ABSENT)
    absent = _look(world, saved, ABSENT)
    _lay(saved, APPLIED)
    applied = _look(world, saved, APPLIED)
    if absent.hung or applied.hung:
        raise UndecidedError(
            f"a look-up with nothing to wait for had not come back after {SECONDS:g} s"
        )
    return absent, applied


def _waits_more(effort: Effort, *usual: Effort) -> str:
    """How a look-up waits more than a usual one, "" if it does not."""
    if effort.hung:
        return f"the look-up had not come back after {SECONDS:g} s"
    waits, seconds = max(each.waits for each in usual), max(each.seconds for each in usual)
    if effort.waits > waits or effort.seconds > seconds:
        told = f"the look-up waited {effort.waits} times, {effort.seconds:g} s in all"
        return f"{told}; a usual one waits {waits} times"
    return ""


@pytest.mark.parametrize("what", CASES)
def test_a_look_up_that_applies_nothing_waits_for_nothing(
    world: World, tally: Tally, what: str
) -> None:
    """A plan that is refused takes no more waiting, and no more readings, than one that is not."""
    saved = _saved(world)
    absent, applied = _usual(world, saved)
    _lay(saved, CASES[what])
    effort = _look(world, saved, CASES[what])
    if effort.hung:
        _usual(world, saved)  # the machine must still be as quick as it was
    tally(boots=world.boots, examples=1)
    story = f"{saved}; {what}"

    if waits := _waits_more(effort, absent, applied):
        raise Violation("GATE-09", f"{story}; {waits}")
    # One may be for the log; who reads its device at every look-up reads it here as well.
    readings = max(1, absent.readings, applied.readings)
    if effort.readings > readings:
        raise Violation(
            "GATE-09", f"{story}; the look-up read its device's memory {effort.readings} times"
        )
    if CASES[what].returned and effort.applied and effort.readings > applied.readings:
        raise Violation(
            "GATE-09", f"{story}; the look-up read its device once more, and then applied the plan"
        )


@contextlib.contextmanager
def _locked(root: str, others: Iterable[str]) -> Iterator[None]:
    """Hold every lock there is on what lies below `root`, and on what else was locked there.

    What a look-up creates for itself alone is created as well, as if somebody held that.
    """
    with contextlib.ExitStack() as held:
        for path in others:
            made = path.startswith(root) and os.path.isdir(os.path.dirname(path))
            if made and not os.path.lexists(path):
                Path(path).touch()
        inside = [os.path.join(at, name) for at, _, names in os.walk(root) for name in (*names, "")]
        elsewhere = [path for path in others if os.path.isfile(path) or os.path.isdir(path)]
        for path in dict.fromkeys((*inside, *elsewhere)):
            flags = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR
            with contextlib.suppress(OSError):
                number = os.open(path, flags)
                held.callback(os.close, number)
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@pytest.mark.parametrize(
    ("what", "case"),
    [
        ("a plan that applies", APPLIED),
        ("a plan that is refused", Case(short=GIB)),
        ("no plan", ABSENT),
    ],
)
def test_a_lock_that_somebody_holds_stops_no_look_up(
    world: World, tally: Tally, what: str, case: Case
) -> None:
    """While another process holds every lock of the plan folder, a look-up comes back at once."""
    saved = _saved(world)
    usual = _usual(world, saved)
    _lay(saved, case)
    free = _look(world, saved, case)
    with _locked(os.path.dirname(world.cache_root), free.locks):
        effort = _look(world, saved, case)
    if effort.hung and _look(world, saved, case).hung:
        raise UndecidedError(f"a look-up does not come back within {SECONDS:g} s, lock or no lock")
    tally(boots=world.boots, examples=1)

    if waits := _waits_more(effort, free, *usual):
        held = "another process holds every lock on what lies in the cache root"
        raise Violation("GATE-09", f"there is {what}; {held}; {waits}")
