# SPDX-License-Identifier: Apache-2.0
"""The worker's own device where vLLM, torch and the driver count in different ways (KEY-04).

vLLM counts the cards that an engine was assigned, torch those that the process sees, the driver all
of the host. A subject that asks one of them by another's number gets another card's identity, or an
error. Where all three agree, nothing of that shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs.numbering import uuid_of
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World


class _Arrangement(NamedTuple):
    """Which cards of a host of four an engine gets, and how it is told.

    Attributes:
        card: the device on which the worker runs, by its place in the world.
        local: its number as vLLM counts.
        visible: what the control variable lists, None where it is unset.
        assigned: the cards that vLLM was assigned, None where it was not.
        by_name: whether the variable lists devices by the driver's names (UUIDs).
    """

    card: int
    local: int
    visible: tuple[int, ...] | None = None
    assigned: tuple[int, ...] | None = None
    by_name: bool = False


_SLICE: Final = 4
_ARRANGEMENTS: Final = {
    "visible 1,0": _Arrangement(1, 0, visible=(1, 0)),
    "visible 3,1": _Arrangement(1, 1, visible=(3, 1)),
    "visible by UUID": _Arrangement(3, 0, visible=(3, 1), by_name=True),
    "a slice": _Arrangement(_SLICE, 0, visible=(_SLICE,), by_name=True),
    "assigned 1,0": _Arrangement(1, 0, assigned=(1, 0)),
    "assigned 3": _Arrangement(3, 0, assigned=(3,)),
    "assigned 3,1 of 1,3": _Arrangement(3, 0, visible=(1, 3), assigned=(3, 1)),
}
_OTHER: Final[dict[str, Any]] = {"name": "Another card", "total": 192 * GIB, "capability": (12, 1)}
_WORDS: Final = {"name": "name", "total": "total memory", "capability": "compute capability"}
_COUNTED: Final = {
    "device_name": "named",
    "device_total_memory": "sized",
    "device_capability": "rated",
}


def _host(world: World, changed: dict[int, str] | None = None) -> None:
    """Four unlike cards, and a slice of the first; some have another trait than usual."""
    world.devices[:] = [
        Device("NVIDIA A100", 40 * GIB, (8, 0)),
        Device("NVIDIA H100", 80 * GIB, (9, 0)),
        Device("NVIDIA B200", 160 * GIB, (10, 0)),
        Device("NVIDIA B300", 240 * GIB, (10, 3)),
        Device("NVIDIA A100 MIG 3g.20gb", 40 * GIB, (8, 0), slice_of=0),
    ]
    for index, trait in (changed or {}).items():
        setattr(world.devices[index], trait, _OTHER[trait])


def _engine(world: World, arrangement: _Arrangement) -> Engine:
    engine = Engine("engine", placement=(arrangement.local,))
    engine.hash_override = keys.SAME_HASH
    backend = world.runtime.backend
    if arrangement.visible is not None:
        names = [
            uuid_of(world.devices, index) if arrangement.by_name else str(index)
            for index in arrangement.visible
        ]
        engine.environ[backend.control] = ",".join(names)
    if arrangement.assigned is not None:
        engine.assign(arrangement.assigned)
    return engine


def _told(world: World, engine: Engine, arrangement: _Arrangement) -> str:
    """How the devices are numbered, for a story."""
    control = world.runtime.backend.control
    listed = engine.environ.get(control)
    ways = [f"{control}={listed}"] if listed else []
    if arrangement.assigned is not None:
        ways.append(f"vLLM is assigned the cards {list(arrangement.assigned)}")
    return (
        f"{' and '.join(ways)}: the worker's device is number {arrangement.local} to vLLM and "
        f"number {world.seat(engine, 0).ordinal} to torch, the driver's card {_card(arrangement)}"
    )


def _card(arrangement: _Arrangement) -> str:
    return "0, of which it is a slice" if arrangement.card == _SLICE else str(arrangement.card)


def _asked(world: World, engine: Engine, result: BootResult) -> str:
    """The queries of vLLM's platform that were made by a number of another count, as a clause."""
    backend = world.runtime.backend
    right = {"logical": engine.placement[0], "visible": world.seat(engine, 0).ordinal}
    wrong = [
        f"{query} of number {number}, where {right[counted]} is the worker's"
        for query, number in dict.fromkeys(result.queries)
        if (counted := getattr(backend, _COUNTED.get(query, ""), "")) in right
        and number != right[counted]
    ]
    return f"; it asked vLLM's platform for the {' and the '.join(wrong)}" if wrong else ""


@pytest.mark.requirement("KEY-04", "KEY-17")
@pytest.mark.parametrize("name", list(_ARRANGEMENTS))
def test_the_own_device_counts_by_whatever_number(world: World, tally: Tally, name: str) -> None:
    """However its device is numbered, a worker's key follows that device and no other."""
    arrangement, backend = _ARRANGEMENTS[name], world.runtime.backend
    if arrangement.assigned is not None and not backend.assigned:
        pytest.skip(f"vLLM's worker takes no assigned cards on the backend {backend.name}")
    if arrangement.by_name and not backend.asks_driver:
        pytest.skip(f"{backend.control} takes numbers only on the backend {backend.name}")
    own = {arrangement.card, 0} if arrangement.card == _SLICE else {arrangement.card}
    _host(world)
    engine = _engine(world, arrangement)
    usual, result = keys.look(world, engine)
    tally(boots=1)
    told = _told(world, engine, arrangement)
    asked = _asked(world, engine, result)
    if result.raised is not None:
        raise Violation("KEY-17", f"{told}{asked}; {result}")
    if usual is None and asked:
        raise Violation("KEY-04", f"{told}{asked}; no plan was saved: {result.lines}")
    if usual is None:
        pytest.skip(f"no plan is saved at all where {told}")

    for trait in _OTHER:
        if keys.lacks_trait(world, trait, each=True):
            continue
        _host(world, dict.fromkeys(own, trait))
        mine = keys.sure_key(world, engine)
        _host(world, dict.fromkeys({0, 1, 2, 3} - own, trait))
        others = keys.sure_key(world, engine)
        tally(boots=2)
        if mine == usual and _counts(world, trait):
            raise Violation(
                "KEY-04",
                f"{told}; that card is replaced by one of another {_WORDS[trait]}, and the worker "
                f"still looks for plan {usual}{asked}",
            )
        if others != usual:
            raise Violation(
                "KEY-04",
                f"{told}; the other cards are replaced by those of another {_WORDS[trait]}, and "
                f"the worker looks for plan {others} and no longer for {usual}{asked}",
            )


def _counts(world: World, trait: str) -> bool:
    """Whether a trait of the device is in the key at all, which is for KEY-03 to judge."""
    plain = Engine("engine")
    plain.hash_override = keys.SAME_HASH
    _host(world)
    usual = keys.key_of(world, plain)
    _host(world, {0: trait})
    return keys.key_of(world, plain) != usual
