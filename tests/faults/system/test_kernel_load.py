# SPDX-License-Identifier: Apache-2.0
"""Look-ups by a real process, of which the kernel fails or kills each system call in turn."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.kernel.controls import TRACED
from startup_plan.harness.kernel.trace import OPENS, READS
from startup_plan.harness.kernel.trial import READ_ERRORS, KernelLoad
from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.reader import shown

if TYPE_CHECKING:
    from startup_plan.harness.kernel.trace import Call
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.reader import Saved
    from startup_plan.harness.world.world import World

pytestmark = [pytest.mark.needs("ptrace"), pytest.mark.control(TRACED)]


@pytest.mark.requirement("LOAD-06")
def test_a_failing_system_call_is_a_miss(world: World, tally: Tally) -> None:
    """An error of open or read is a miss; no error at all raises, or has another value applied."""
    kernel, fired, offenders = KernelLoad(world), 0, []
    saved = kernel.saved
    tried = READ_ERRORS if profiles.is_thorough() else READ_ERRORS[:1]
    for blow in itertools.chain.from_iterable(map(kernel.failed, tried)):
        fired += 1
        if blow.raised:
            offenders.append(f"{blow.label}: the look-up {blow.raised}")
        elif blow.applied is not None and (
            blow.applied != saved.kv_bytes or brings_the_plan(blow.call, saved)
        ):
            offenders.append(f"{blow.label}: {shown(blow.applied)} was applied")
    tally(faults_fired=fired, boots=world.boots)

    if offenders:
        more = f"; and {len(offenders) - 3} more" if len(offenders) > 3 else ""
        raise Violation("LOAD-06", f"{saved}; " + "; ".join(offenders[:3]) + more)
    reached(fired == len(tried) * len(kernel.clean.calls), "a fault at every system call")


@pytest.mark.requirement("BOOT-01")
def test_a_look_up_that_is_killed_costs_no_plan(world: World, tally: Tally) -> None:
    """After SIGKILL at any system call of a look-up, the next boot applies the plan."""
    kernel, kills = KernelLoad(world), 0
    for blow in kernel.killed():
        kills += 1
        booted = kernel.next_boot()
        if booted.applied != kernel.saved.kv_bytes:
            raise Violation(
                "BOOT-01",
                f"{kernel.saved}; a look-up was {blow.label}; the next {booted}, "
                f"instead of applying {gib(kernel.saved.kv_bytes)}",
            )
    tally(kills=kills, boots=world.boots)

    reached(kills == len(kernel.clean.calls), "a kill at every system call")


def brings_the_plan(call: Call, saved: Saved) -> bool:
    """Whether nothing can be known of the plan without this call.

    Whether it matters that the file cannot be asked for its size, or closed, is left open.
    """
    return call.name in OPENS | READS and saved.path in call.paths
