# SPDX-License-Identifier: Apache-2.0
"""Variables that a plugin of the same process sets between import and look-up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.world.engine import Engine
from startup_plan.support.environment import ROOT, variables
from startup_plan.support.plan_files import plans_below

if TYPE_CHECKING:
    from pathlib import Path

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.stubs.configs import Variable
    from startup_plan.harness.world.world import World


def _measures(world: World, variable: Variable, text: str) -> bool:
    """Whether an engine that has the variable from the start does not find the usual plan."""
    engine = Engine()
    engine.setenv(variable.name, text)
    return world.boot(engine).applied is None


@pytest.mark.requirement("KEY-11")
def test_a_variable_that_is_set_after_import_moves_the_key(world: World, tally: Tally) -> None:
    """A plan saved without a variable is not applied with it, also if it was set after import.

    A variable that is not in the key at all says nothing about when it is read.
    """
    world.boot(Engine())
    rows = [*stub_configs.VARIABLES, *stub_configs.EXTRA_VARIABLES]
    for variable in (row for row in rows if row.moves):
        text = next(text for text in variable.alternates if variable.bytes_at(text))
        result = world.boot(Engine(), during_load=variables({variable.name: text}))
        tally(boots=1, examples=1)

        if result.applied is not None and _measures(world, variable, text):
            raise Violation(
                "KEY-11",
                f"{result}: it applied the plan of an engine without {variable.name}, which was "
                f"{text!r} when the plan was looked up and had been set after the import; set "
                "before the import it moves the key",
            )


@pytest.mark.requirement("KEY-15")
def test_the_plan_lies_below_the_root_that_holds_now(
    world: World, tally: Tally, tmp_path: Path
) -> None:
    """A plan lies where VLLM_CACHE_ROOT points when it is looked up and saved."""
    other = os.path.join(tmp_path, "other root")
    result = world.boot(
        Engine(),
        during_load=variables({ROOT: other}),
        during_save=variables({ROOT: other}),
    )
    tally(boots=1)

    if world.plans() or not plans_below(other):
        raise Violation(
            "KEY-15",
            f"{result}: VLLM_CACHE_ROOT was set to another folder after the import; it left "
            f"{world.plans() or 'nothing'} below the old one and "
            f"{plans_below(other) or 'nothing'} below the new one",
        )
