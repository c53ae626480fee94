# SPDX-License-Identifier: Apache-2.0
"""GROUP: ranks of one engine, real processes on vLLM's own worker that meet over gloo."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.real_vllm.controls import GROUP
from startup_plan.harness.real_vllm.group_scenes import (
    FAILURES,
    MISSES,
    ODD,
    SHAPES,
    Group,
    boot_after,
    judge_together,
)
from startup_plan.harness.real_vllm.order import RankOrder

if TYPE_CHECKING:
    from startup_plan.harness.real_vllm.host import RealHost
    from startup_plan.harness.session.fixtures import Tally

pytestmark = [pytest.mark.vllm, pytest.mark.control(GROUP)]

PAIR: Final = next(iter(SHAPES))
LARGER: Final = list(SHAPES)[1:]
# A hang takes seconds to be sure of; the inner loop tries each shape and each kind of trouble once.
TRIED: Final = list(MISSES) if profiles.is_thorough() else list(MISSES)[:1]
FAILED: Final = list(FAILURES) if profiles.is_thorough() else list(FAILURES)[:1]
CASES: Final = [
    *((PAIR, what) for what in TRIED),
    *((shape, what) for shape in LARGER for what in list(MISSES)[-1:]),
]


@pytest.mark.requirement("GROUP-01")
@pytest.mark.parametrize(("shape", "what"), CASES)
def test_all_apply_or_none(host: RealHost, tally: Tally, shape: str, what: str) -> None:
    """With one rank's plan gone or refused, every rank profiles, and none waits for ever."""
    group = Group(host, shape)
    reached(group.settle("GROUP-01"), "a group that applies its plans")
    reports = boot_after(group, what)
    tally(boots=3 * group.size, examples=1)

    judge_together(group, reports, "GROUP-01")


@pytest.mark.requirement("BOOT-01")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_group_applies_what_it_saved(host: RealHost, tally: Tally, shape: str) -> None:
    """Where every rank has its plan and may use it, the second boot of a group applies."""
    group = Group(host, shape)
    applied = group.settle("BOOT-01")
    tally(boots=2 * group.size, examples=1)

    if not applied:
        raise Violation("BOOT-01", host.tale("the second boot measured again"))


@pytest.mark.requirement("GROUP-02")
def test_an_outvoted_rank_is_reset(host: RealHost, tally: Tally) -> None:
    """A rank that could have applied and was outvoted has no value left in its configuration."""
    group = Group(host, PAIR)
    reached(group.settle("GROUP-02"), "a group that applies its plans")
    reports = boot_after(group, next(iter(MISSES)))
    tally(boots=3 * group.size, examples=1)

    left = [report for report in reports if report.rank != ODD and report.applied is not None]
    if left:
        raise Violation("GROUP-02", host.tale(f"rank {left[0].rank} kept its value"))
    judge_together(group, reports, "GROUP-02")


@pytest.mark.requirement("GROUP-03")
@pytest.mark.parametrize("what", FAILED)
def test_a_failed_look_up_votes(host: RealHost, tally: Tally, what: str) -> None:
    """A rank whose own look-up fails in any way takes part, so that nobody waits for it."""
    group = Group(host, PAIR)
    reached(group.settle("GROUP-03"), "a group that applies its plans")
    reports = boot_after(group, what)
    tally(boots=3 * group.size, examples=1)

    judge_together(group, reports, "GROUP-03")


@pytest.mark.requirement("GROUP-04")
def test_one_rank_needs_no_group(host: RealHost, tally: Tally) -> None:
    """One rank applies its plan in a process in which no process group was ever made."""
    host.must_boot(host.order(), "GROUP-04")
    usual, *_ = host.must_boot(host.order(), "GROUP-04")
    reached(usual.applied, "a plan of a single rank that is applied where there is a group")
    host.tell("the process group is taken away")
    alone, *_ = host.must_boot(host.order(ranks={0: RankOrder(no_group=True)}), "GROUP-04")
    tally(boots=3, examples=1)

    if not alone.applied:
        raise Violation("GROUP-04", host.tale("without a group the plan was not applied"))


@pytest.mark.requirement("LOG-01")
def test_an_outvoted_rank_says_by_whom(host: RealHost, tally: Tally) -> None:
    """A rank that was outvoted says in one line that it was, and which rank had no plan."""
    group = Group(host, PAIR)
    applied = group.settle("LOG-01")
    reports = boot_after(group, next(iter(MISSES)))
    tally(boots=3 * group.size, examples=1)

    # Who hangs, fails or applies breaks another sentence.
    outvoted = reports[0]
    spoilt = any(report.hung or report.raised or report.applied for report in reports)
    reached(applied and not spoilt, "a group that profiles because one rank has no plan")
    # The save has a line of its own at the end.
    naming = [line for line in outvoted.lines[:-1] if re.search(rf"\b{ODD}\b", line)]
    if len(naming) != 1:
        verdict = f"rank 0 did not say in one line which rank outvoted it: {outvoted.lines}"
        raise Violation("LOG-01", host.tale(verdict))


@pytest.mark.requirement("GROUP-01")
def test_an_explicit_value_needs_no_vote(host: RealHost, tally: Tally) -> None:
    """Ranks that were given a value profile as with the feature off, and wait for nobody."""
    group = Group(host, PAIR)
    order = group.order()
    order.explicit = 2**30
    reports = host.boot(order)
    tally(boots=group.size, examples=1)

    judge_together(group, reports, "GROUP-01")
