# SPDX-License-Identifier: Apache-2.0
"""Saves that meet something else where a folder or the plan should be."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.save_trial import NEW, SaveTrial
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World


def _file(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb"):
        pass


def _link(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def _rename(trial: SaveTrial, name: str) -> None:
    trial.world.cache_root = os.path.join(trial.root, name)


OBSTACLES: Final[dict[str, Callable[[SaveTrial], None]]] = {
    "a file for the cache root": lambda trial: _file(trial.world.cache_root),
    "a file for the plan folder": lambda trial: _file(trial.world.plan_folder),
    "a link to nowhere for the cache root": lambda trial: _link(
        trial.world.cache_root, os.path.join(trial.root, "nowhere", "at all")
    ),
    "a link to itself for the plan folder": lambda trial: _link(
        trial.world.plan_folder, trial.world.plan_folder
    ),
    "an empty folder for the plan": lambda trial: os.makedirs(trial.plan),
    "a full folder for the plan": lambda trial: os.makedirs(os.path.join(trial.plan, "more")),
    "too long a name for the cache root": lambda trial: _rename(trial, "x" * 300),
    "odd bytes in the name of the cache root": lambda trial: _rename(
        trial, os.fsdecode(b"caf\xe9\n\x1b[31m")
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.requirement("SAVE-01", "SAVE-03")
def test_an_obstacle_costs_only_the_plan(world: World, tally: Tally, obstacle: str) -> None:
    """Whatever stands in the way of a save, nothing is raised and no temporary file is left."""
    trial = SaveTrial(world, over_old=False)
    shutil.rmtree(world.cache_root)
    OBSTACLES[obstacle](trial)
    before = _names(trial.root)
    result = trial.save(again=False)
    new = _names(trial.root) - before
    tally(boots=world.boots)

    head = f"in the way: {obstacle}; {gib(NEW)} are saved"
    if result.raised is not None and result.where == "save":
        raise Violation("SAVE-01", f"{head}; the save raised {trial.brief(result.raised)}")
    # A save that went well under another name of the cache root has left its files there.
    litter = [name for name in new if os.path.basename(name) not in trial.lasting_names]
    if litter:
        raise Violation("SAVE-03", f"{head}; {len(litter)} temporary file was left")


def _names(root: str) -> set[str]:
    """Everything below a folder that is not a folder itself."""
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}
