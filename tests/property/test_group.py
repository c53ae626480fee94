# SPDX-License-Identifier: Apache-2.0
"""GROUP: what an engine of one rank needs of others, which is nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.histories.scenes import must_boot, tale
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


@pytest.mark.requirement("GROUP-04")
def test_a_single_rank_needs_no_process_group(world: World, tally: Tally) -> None:
    """With torch.distributed not initialised and no group in sight, one rank saves and applies."""
    engine = Engine()
    must_boot(world, engine, "GROUP-04")
    usual = must_boot(world, engine, "GROUP-04")
    reached(usual.applied, "a plan of a single rank that is applied where there is a group")
    for path in world.plans():
        os.unlink(path)
    world.has_groups = False
    world.tell("the plans are gone, and there is no process group")
    must_boot(world, engine, "GROUP-04")
    second = must_boot(world, engine, "GROUP-04")
    tally(boots=4, examples=1)

    if not second.applied:
        raise Violation("GROUP-04", tale(world, "the plan of a single rank was not applied"))
