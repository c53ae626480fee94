# SPDX-License-Identifier: Apache-2.0
"""KEY-04 on vLLM's own worker: on cards that vLLM and torch number differently, and the second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import NeverReachedError, Violation
from startup_plan.harness.real_vllm.controls import WORKER
from startup_plan.harness.real_vllm.order import ASSIGNED, Accelerator
from startup_plan.harness.stubs.units import GIB

if TYPE_CHECKING:
    from startup_plan.harness.real_vllm.host import Booter, RealHost
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.control(WORKER),
    pytest.mark.requirement("KEY-04"),
]

_FIRST: Final = Accelerator("Simulated H200")
_SECOND: Final = Accelerator("Simulated L40S", 96 * GIB)
_OTHER: Final = Accelerator("Simulated B200", 160 * GIB)


@pytest.fixture
def assigning(booter: Booter) -> None:
    """Skips on a release whose engines are not assigned cards."""
    if not booter.assigns:
        pytest.skip(f"engines of vLLM {booter.version} are not assigned cards")


def _boot(host: RealHost, assigned: list[int], cards: list[Accelerator]) -> BootResult:
    host.tell(f"cards {', '.join(card.name for card in cards)}; vLLM is assigned {assigned}")
    (report,) = host.boot(host.order(settings={ASSIGNED: assigned}, cards=cards))
    return report


@pytest.mark.usefixtures("assigning")
@pytest.mark.parametrize("assigned", [[1], [1, 0]], ids=str)
def test_the_plan_is_that_of_the_card_that_is_assigned(
    host: RealHost, tally: Tally, assigned: list[int]
) -> None:
    """The worker's card decides: its plan is applied on it, and on no other that stands there."""
    first = _boot(host, assigned, [_FIRST, _SECOND])
    if first.raised is not None:
        raise Violation("KEY-04", host.tale("the boot did not get so far"))
    again = _boot(host, assigned, [_FIRST, _SECOND])
    beside = _boot(host, assigned, [_OTHER, _SECOND])
    instead = _boot(host, assigned, [_FIRST, _OTHER])
    tally(boots=4, examples=1)

    if instead.applied is not None:
        raise Violation("KEY-04", host.tale("that is the plan of the card that stood there before"))
    if not again.applied:
        lines = [line for line in first.lines if line]
        if "out of range" in " ".join(lines):
            raise Violation("KEY-04", host.tale(f"the worker's card was not found: {lines}"))
        raise NeverReachedError(f"a plan that is applied again (BOOT-01): {lines}")
    if beside.applied != again.applied:
        raise Violation("KEY-04", host.tale("only the card beside the worker's is another"))


def test_the_second_rank_has_the_plan_of_the_second_card(host: RealHost, tally: Tally) -> None:
    """Where the second of two ranks finds another card, it applies no plan of the one before."""
    last: list[BootResult] = []
    for card in (_SECOND, _SECOND, _OTHER):
        host.tell(f"cards {_FIRST.name}, {card.name}")
        last = host.boot(host.order(tensor=2, cards=[_FIRST, card]))
        if any(report.raised is not None for report in last):
            raise NeverReachedError(f"two ranks that boot: {host.tale('')}")
    tally(boots=6, examples=1)

    if last[1].applied is not None:
        raise Violation("KEY-04", host.tale("rank 1 applied the plan of the card before"))
