# SPDX-License-Identifier: Apache-2.0
"""What happens on a card: histories of boots and co-tenants, and what each of them must not show.

Each scenario runs on any `Card` and judges figures that were read there: the gate by the free
memory that the engine itself found, the outcome by whether the device had the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import gib

from .card import GRAPHS, CardBusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from startup_plan.harness.world.outcome import BootResult

    from .card import Card
    from .order import Order


@final
@dataclass(frozen=True, slots=True)
class Scenario:
    """A history, and what it takes.

    Attributes:
        run: the history.
        ids: the requirements that it judges.
        peak: the most that is in use at once, as a part of the card.
        devices: how many devices it needs.
    """

    run: Callable[[Card], None]
    ids: tuple[str, ...]
    peak: float
    devices: int = 1


def fits(card: Card, report: BootResult, raising: str = "BOOT-07") -> BootResult:
    """A boot that came to serve with a KV cache that was really there.

    Raises:
        Violation: the subject raised (`raising`), or the device ran out of memory.
        CardBusyError: the worker itself gave up.
    """
    if report.raised is not None:
        raise Violation(raising, card.tale("the boot did not get so far"))
    if report.out_of_memory:
        raise Violation("BOOT-07", card.tale("it was handed memory that is not there"))
    if report.gave_up:
        raise CardBusyError(card.tale("nothing can be judged"))
    if report.written < report.kv:
        raise Violation("BOOT-07", card.tale(f"only {gib(report.written)} could be written"))
    return report


def boots(card: Card, order: Order) -> BootResult:
    """Boot an engine that must come to serve."""
    return fits(card, card.boot(order))


def applies(card: Card, report: BootResult, saved: BootResult, requirement: str) -> None:
    """The boot applied what `saved` handed over, which was measured with no more free memory.

    Raises:
        Violation: it measured again (`requirement`), or it applied another value.
        CardBusyError: the free memory has changed although nothing has happened.
    """
    if report.free < saved.free:
        raise CardBusyError(
            card.tale(f"the card is not steady: {saved.free} bytes were free, now {report.free}")
        )
    if report.applied is None:
        raise Violation(requirement, card.tale("it measured again"))
    exactly(card, report, saved)


def exactly(card: Card, report: BootResult, saved: BootResult) -> None:
    """The value applied is the one saved; with CUDA graphs, these may be counted back in.

    Raises:
        Violation: another value was applied.
    """
    most = min(saved.kv, (saved.suggestion or 0) + (saved.estimate or 0))
    least = saved.suggestion or 0
    if report.applied is None or not least <= report.applied <= max(most, least):
        raise Violation("GATE-02", card.tale(f"applied {report.applied}, saved {least}"))


def refuses(card: Card, report: BootResult, saved: BootResult) -> None:
    """The boot measured, because less was free than when `saved` was measured.

    Raises:
        Violation: it applied, or a value was left in the configuration.
    """
    if report.free >= saved.free:
        raise CardBusyError(
            card.tale(f"the card is not steady: {saved.free} bytes were free, now {report.free}")
        )
    if report.left is None:
        return
    if report.left:
        raise Violation("GATE-01", card.tale("it applied with less memory free than the baseline"))
    raise Violation("GATE-07", card.tale(f"it left {report.left} in the configuration"))


def _same_card(card: Card) -> None:
    """Boot 2 applies boot 1's value, measures nothing, writes nothing, fills its KV cache."""
    first = boots(card, card.order())
    before = card.plans()
    second = boots(card, card.order())
    applies(card, second, first, "BOOT-01")
    if card.plans() != before:
        raise Violation("BOOT-04", card.tale("the boot that applied wrote to the cache"))
    if len(set(second.hashes)) > 1:
        raise Violation("BOOT-05", card.tale("applying has changed the hash of the configuration"))
    if second.calls != ["profile_run"]:
        raise Violation("BOOT-02", card.tale(f"it ran {', '.join(second.calls)}"))


def _comes_and_goes(card: Card) -> None:
    """Beside a co-tenant the plan is refused; without it, the last one applies again."""
    first = boots(card, card.order())
    tenant = card.tenant(card.share(0.3))
    beside = boots(card, card.order())
    refuses(card, beside, first)
    card.leave(tenant)
    after = boots(card, card.order())
    if after.free > beside.free and after.applied is None:
        raise Violation("GATE-04", card.tale("more free memory has turned it into a refusal"))
    applies(card, after, beside, "BOOT-01")


def _boundary(card: Card) -> None:
    """At the baseline a plan applies; with one granule less it does not, and then it does again."""
    tenant = card.tenant(card.share(0.1))
    first = boots(card, card.order())
    equal = boots(card, card.order())
    if equal.free == first.free and equal.applied is None:
        raise Violation("GATE-01", card.tale("it was refused with all of the baseline free"))
    applies(card, equal, first, "BOOT-01")
    card.hold(tenant, tenant.held + card.granule)
    short = boots(card, card.order())
    refuses(card, short, first)
    card.hold(tenant, tenant.held - card.granule)
    again = boots(card, card.order())
    applies(card, again, short, "BOOT-01")
    card.note("boundary", baseline=first.free, refused_at=short.free, granule=card.granule)


def _budgets(card: Card) -> None:
    """0.8, then 0.35, then 0.8: each within its budget as seen from outside, the last as before."""
    high = _watched(card, 0.8)
    low = _watched(card, 0.35)
    back = _watched(card, 0.8)
    for row in (high, low, back):
        profiled = low if row is low else high
        card.note(
            f"table {row.utilization:g}",
            total_budget=row.budget,
            reused_allowance=row.applied,
            profiled_allowance=profiled.kv if profiled.applied is None else None,
        )
    if low.applied is not None:
        raise Violation("BOOT-06", card.tale(f"{gib(low.applied)} in a budget {gib(low.budget)}"))
    if back.applied not in (high.suggestion, None):
        raise Violation("BOOT-06", card.tale("raised back, it applied what was not measured there"))
    applies(card, back, high, "BOOT-06")


def _watched(card: Card, utilization: float) -> BootResult:
    """Boot, and look from outside before and after what the engine takes.

    Raises:
        Violation: the engine takes more than its budget.
    """
    boot = card.start(card.order(utilization=utilization), "snapshot")
    before = card.used()
    report = boot.advance("served")
    taken = card.used() - before
    boot.end()
    card.settle()
    card.tell(boot)
    card.note(f"seen from outside at {utilization:g}", taken=taken, budget=report.budget)
    fits(card, report)
    # A measurement may fall short by as much as the worker takes off what it hands over.
    slack = card.buffer if report.left is None else 0
    if taken > report.budget + slack:
        raise Violation(
            "BOOT-06", card.tale(f"{gib(taken)} taken, of a budget of {gib(report.budget)}")
        )
    return report


def _lowered_beside_a_cotenant(card: Card) -> None:
    """An engine measured at 0.8 makes room for a co-tenant: at 0.35 it fits beside it."""
    boots(card, card.order(utilization=0.8))
    tenant = card.tenant(card.share(0.4))
    low = boots(card, card.order(utilization=0.35))
    card.leave(tenant)
    if low.applied is not None:
        raise Violation("BOOT-06", card.tale(f"{gib(low.applied)} in a budget {gib(low.budget)}"))


def _explicit(card: Card) -> None:
    """An explicit size wins, 0 included: it stays, nothing is saved, and no plan is touched."""
    size = card.share(1 / 8)
    for given in (size, 0):
        alone = boots(card, card.order(explicit=given))
        if alone.left != given:
            raise Violation("GATE-05", card.tale(f"{given} was set, {alone.left} was left"))
    if card.plans():
        raise Violation("GATE-05", card.tale("a plan was saved"))
    boots(card, card.order())
    before = card.plans()
    for given in (size, 0):
        beside = boots(card, card.order(explicit=given))
        if (beside.left, card.plans()) != (given, before):
            raise Violation("GATE-05", card.tale(f"{given} was set, {beside.left} was left"))


def _off(card: Card) -> None:
    """With the flag off nothing is touched; a first boot with it on does what one without does."""
    plain = boots(card, card.order(enabled=None))
    boots(card, card.order(enabled=False))
    first = boots(card, card.order())
    before = card.plans()
    off = boots(card, card.order(enabled=False))
    if plain.queries or off.queries:
        raise Violation("GATE-06", card.tale("the device was asked although plans are off"))
    if off.left is not None or card.plans() != before or plain.log or off.log:
        raise Violation("GATE-06", card.tale("something happened although plans are off"))
    if first.left is None and first.calls != plain.calls:
        raise Violation(
            "BOOT-03",
            card.tale(f"it ran {', '.join(first.calls)}, without plans {', '.join(plain.calls)}"),
        )


def _off_on_an_empty_disk(card: Card) -> None:
    """With the flag off or unset, not even a folder is made."""
    for enabled in (None, False):
        boots(card, card.order(enabled=enabled))
        if card.plans():
            raise Violation("GATE-06", card.tale("something was written although plans are off"))


def _graphs(card: Card) -> None:
    """The value of a plan leaves room for the CUDA graphs of the boot that applies it."""
    order = card.order(graphs=card.share(GRAPHS))
    first = boots(card, order)
    second = boots(card, order)
    applies(card, second, first, "BOOT-01")
    lost = first.kv - second.kv
    card.note("graphs", taken=second.graphs, estimate=first.estimate, lost=lost)
    # What capturing takes differs from what was estimated; that is the worker's matter.
    drift = max(0, first.graphs - (first.estimate or 0))
    if lost > card.buffer + drift + card.granule:
        raise Violation("BOOT-08", card.tale(f"its KV cache is {gib(lost)} smaller"))


def _heavier_weights(card: Card) -> None:
    """A checkpoint that has grown under the same path does not get the plan of the old one."""
    first = boots(card, card.order())
    heavier = boots(card, card.order(weights=card.share(0.15)))
    if heavier.left == 0:
        raise Violation("GATE-07", card.tale("it left 0 in the configuration"))
    if heavier.applied is not None:
        raise Violation(
            "GATE-08", card.tale(f"applied beside heavier weights, {gib(first.suggestion)}")
        )


APPLIES: Final = ("BOOT-01", "GATE-02", "BOOT-07")
REFUSES: Final = ("GATE-01", "GATE-07", "BOOT-07")
"""What a scenario judges in which a plan must be applied, or refused."""

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "same card": Scenario(_same_card, (*APPLIES, "BOOT-02", "BOOT-04", "BOOT-05"), 0.5),
    "a co-tenant comes and goes": Scenario(_comes_and_goes, (*APPLIES, *REFUSES, "GATE-04"), 0.8),
    "the boundary": Scenario(_boundary, (*APPLIES, *REFUSES), 0.6),
    "0.8, 0.35, 0.8": Scenario(_budgets, (*APPLIES, "BOOT-06"), 0.8),
    "lowered beside a co-tenant": Scenario(_lowered_beside_a_cotenant, ("BOOT-06", "BOOT-07"), 0.8),
    "an explicit size": Scenario(_explicit, ("GATE-05", "BOOT-07"), 0.5),
    "the flag off": Scenario(_off, ("GATE-06", "BOOT-03", "BOOT-07"), 0.5),
    "the flag off on an empty disk": Scenario(_off_on_an_empty_disk, ("GATE-06", "BOOT-07"), 0.5),
    "CUDA graphs": Scenario(_graphs, (*APPLIES, "BOOT-08"), 0.5),
    "heavier weights": Scenario(_heavier_weights, ("GATE-07", "GATE-08", "BOOT-07"), 0.6),
}
"""Name -> one engine after the other."""
