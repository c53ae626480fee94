# SPDX-License-Identifier: Apache-2.0
"""Look-ups by a real process, of which the kernel fails or kills each system call in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.boot import gib
from startup_plan.harness.kernel_trace import OPENS, READS
from startup_plan.harness.kernel_trial import READ_ERRORS, KernelLoad
from startup_plan.harness.reader import shown
from startup_plan.harness.violation import Violation

if TYPE_CHECKING:
    from startup_plan.harness.plugin_fixtures import Tally
    from startup_plan.harness.world import World

pytestmark = pytest.mark.needs("ptrace")


@pytest.mark.parametrize("error", READ_ERRORS)
@pytest.mark.requirement("LOAD-06")
def test_a_failing_system_call_is_a_miss(world: World, tally: Tally, error: str) -> None:
    """An error of open or read is a miss; no error at all raises, or has another value applied."""
    kernel, fired, offenders = KernelLoad(world), 0, []
    saved = kernel.saved
    for blow in kernel.failed(error):
        fired += 1
        if blow.raised:
            offenders.append(f"{blow.label}: the look-up {blow.raised}")
        # Whether it matters that the file cannot be asked for its size, or closed, is left open.
        elif blow.applied is not None and (
            blow.applied != saved.kv_bytes or blow.call.name in OPENS | READS
        ):
            offenders.append(f"{blow.label}: {shown(blow.applied)} was applied")
    tally(faults_fired=fired, boots=world.boots)

    if offenders:
        raise Violation("LOAD-06", f"{saved}; " + "; ".join(offenders))
    assert fired == len(kernel.clean.calls)


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

    assert kills == len(kernel.clean.calls)
