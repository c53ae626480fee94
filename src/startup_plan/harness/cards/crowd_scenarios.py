# SPDX-License-Identifier: Apache-2.0
"""What happens on a card while somebody else is at work there: leaks, neighbours, growth."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import gib
from startup_plan.support.plan_files import is_plan

from .scenarios import APPLIES, REFUSES, SCENARIOS, Scenario, applies, boots, fits, refuses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from startup_plan.harness.world.outcome import BootResult

    from .card import Boot, Card


def _leak(card: Card) -> None:
    """A boot that hangs on to its memory, and one that was just killed: refused, or it fits."""
    order = card.order(utilization=0.4)
    first = boots(card, order)
    stuck = card.start(order, "served")
    card.tell(stuck)
    beside = boots(card, order)
    refuses(card, beside, first)
    stuck.kill()
    card.story.append("the engine that was stuck is killed")
    # Nobody waits for the memory here: it may be back already or not.
    hurried = card.boot(order)
    if not hurried.gave_up:
        fits(card, hurried)
        judged_by_its_figures(card, hurried, beside)
    card.settle()
    boots(card, order)


def _killed_while_booting(card: Card) -> None:
    """A boot that is killed before it has saved leaves no plan and, in the end, no memory."""
    order = card.order(utilization=0.4)
    for stage in ("loaded", "profiled", "captured"):
        boot = card.start(order, stage)
        boot.kill()
        card.story.append(f"a boot is killed once it has {stage}")
        fits_or_is_refused(card, card.boot(order))
        card.settle()
    measured = boots(card, order)
    if measured.applied is None:
        applies(card, boots(card, order), measured, "BOOT-01")


def _dying(card: Card) -> None:
    """Boots that run out of memory, or are killed, change no plan and save none."""
    _die_in_every_way(card)
    first = boots(card, card.order(utilization=0.4))
    if first.applied is not None:
        raise Violation("BOOT-09", card.tale("it applied what a boot that died has left"))
    applies(card, boots(card, card.order(utilization=0.4)), first, "BOOT-01")
    _die_in_every_way(card)
    tenant = card.tenant(card.share(0.1))
    _die_in_every_way(card)
    card.leave(tenant)
    applies(card, boots(card, card.order(utilization=0.4)), first, "BOOT-09")


def _die_in_every_way(card: Card) -> None:
    too_much, before = card.share(2), _plans(card)
    for part in ("weights", "activations", "graphs"):
        boot = card.start(card.order(utilization=0.4, **{part: too_much}), "served")
        _die(card, boot, f"a boot asks for {gib(too_much)} of {part}", before)
    for stage in ("looked-up", "allocated", "captured"):
        boot = card.start(card.order(utilization=0.4), stage)
        _die(card, boot, f"a boot is killed once it has {stage}", before)


def _die(card: Card, boot: Boot, how: str, before: Mapping[str, bytes]) -> None:
    """End what is left of a boot, and look whether the plans are those from before."""
    boot.kill()
    card.settle()
    card.story.append(how)
    if _plans(card) != before:
        raise Violation("BOOT-09", card.tale("the plans are not those from before"))


def _plans(card: Card) -> dict[str, bytes]:
    """The plan files alone; what else a subject keeps there is no plan."""
    return {
        path: content
        for path, (*_, content) in card.plans().items()
        if is_plan(os.path.basename(path))
    }


def judged_by_its_figures(card: Card, report: BootResult, saved: BootResult) -> None:
    """Whatever the free memory was by then, the gate went by it.

    Raises:
        Violation: it applied with less than the baseline free.
    """
    if report.free < saved.free and report.left is not None:
        raise Violation("GATE-01", card.tale("it applied with less memory free than the baseline"))


def fits_or_is_refused(card: Card, report: BootResult) -> None:
    """A boot that gave up by itself has harmed nobody; one that went on must fit."""
    if not report.gave_up:
        fits(card, report)


def _two_at_once(card: Card) -> None:
    """Two engines that measure at the same time fit, and so do their plans, together and alone."""
    orders = [
        card.order(name=name, utilization=0.4, settings={"model_config.max_model_len": length})
        for name, length in (("A", 4096), ("B", 2048))
    ]
    for _ in range(2):
        # The second time both find the plan of the first time.
        pair = [card.start(order, "snapshot") for order in orders]
        for stage in ("loaded", "looked-up", "profiled", "allocated", "captured", "served"):
            for boot in pair:
                boot.advance(stage)
        for boot in pair:
            boot.end()
        card.settle()
        for boot in pair:
            fits_or_is_refused(card, card.tell(boot))
    for order in orders:
        boots(card, order)


def _same_engine_twice_at_once(card: Card) -> None:
    """Two processes of one engine start together with its plan; what both apply fits beside it."""
    order = card.order(utilization=0.4)
    boots(card, order)
    pair = [card.start(order, "looked-up") for _ in range(2)]
    for boot in pair:
        boot.advance("served")
    for boot in pair:
        boot.end()
    card.settle()
    for boot in pair:
        fits_or_is_refused(card, card.tell(boot))


def _growing(card: Card) -> None:
    """A co-tenant that grows while a boot profiles leaves no plan that goes beyond the card."""
    tenant = card.tenant(card.share(0.1))
    boot = card.start(card.order(), "looked-up")
    card.hold(tenant, card.share(0.2))
    boot.advance("served")
    boot.end()
    card.settle()
    measured = fits(card, card.tell(boot))
    grown = boots(card, card.order())
    refuses(card, grown, measured)
    card.hold(tenant, card.share(0.3))
    more = boots(card, card.order())
    refuses(card, more, grown)
    card.hold(tenant, card.share(0.1))
    back = boots(card, card.order())
    applies(card, back, more, "BOOT-01")
    card.leave(tenant)
    boots(card, card.order())


def _leaving(card: Card) -> None:
    """A co-tenant that leaves while a boot profiles, and comes back: what it gave was not there."""
    order = card.order(utilization=0.93)
    # Less than the transient peak, so that the weights still fit into the budget (SAVE-13).
    gone = card.share(0.045)
    tenant = card.tenant(gone)
    boot = card.start(order, "looked-up")
    card.leave(tenant)
    boot.advance("served")
    boot.end()
    card.settle()
    fits_or_is_refused(card, card.tell(boot))
    card.tenant(gone)
    fits_or_is_refused(card, card.boot(order))


def _two_devices(card: Card) -> None:
    """Identity and free memory are those of the worker's own device, not of device 0."""
    first = boots(card, card.order(utilization=0.4))
    other = boots(card, card.order(utilization=0.4, device=1))
    if other.total != first.total and other.applied is not None:
        raise Violation("KEY-04", card.tale("the plan of device 0 was applied on device 1"))
    tenant = card.tenant(card.share(0.3), device=0)
    own = boots(card, card.order(utilization=0.4, device=1))
    if own.free >= other.free and own.applied is None:
        raise Violation("KEY-04", card.tale("a co-tenant of device 0 mattered on device 1"))
    card.leave(tenant)


CROWDS: Final[Mapping[str, Scenario]] = {
    "a leak": Scenario(_leak, REFUSES, 0.8),
    "killed while booting": Scenario(_killed_while_booting, APPLIES, 0.8),
    "dying while booting": Scenario(_dying, (*APPLIES, "BOOT-09"), 0.5),
    "two engines at once": Scenario(_two_at_once, ("BOOT-07",), 0.8),
    "one engine twice at once": Scenario(_same_engine_twice_at_once, ("BOOT-07",), 0.8),
    "a co-tenant grows": Scenario(_growing, (*APPLIES, *REFUSES), 0.8),
    "two devices": Scenario(_two_devices, ("KEY-04", "BOOT-07"), 0.7, devices=2),
}
"""Name -> several processes on one card."""

ALL: Final[Mapping[str, Scenario]] = {**SCENARIOS, **CROWDS}
"""Every scenario for a real card."""

MADE_UP: Final[Mapping[str, Scenario]] = {
    **ALL,
    "a co-tenant leaves": Scenario(_leaving, ("BOOT-07",), 1.0),
}
"""Every scenario, those included that take a card to its end, which no real one is asked for."""
