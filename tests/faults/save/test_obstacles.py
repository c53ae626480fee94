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


def _a_file_for_the_cache_root(trial: SaveTrial) -> None:
    _touch(trial.world.cache_root)


def _a_file_for_the_plan_folder(trial: SaveTrial) -> None:
    os.makedirs(trial.world.cache_root)
    _touch(trial.world.plan_folder)


def _a_link_to_nowhere_for_the_cache_root(trial: SaveTrial) -> None:
    os.symlink(os.path.join(trial.root, "nowhere", "at all"), trial.world.cache_root)


def _a_link_to_itself_for_the_plan_folder(trial: SaveTrial) -> None:
    os.makedirs(trial.world.cache_root)
    os.symlink(trial.world.plan_folder, trial.world.plan_folder)


def _an_empty_folder_for_the_plan(trial: SaveTrial) -> None:
    os.makedirs(trial.plan)


def _a_full_folder_for_the_plan(trial: SaveTrial) -> None:
    os.makedirs(os.path.join(trial.plan, "more"))


def _too_long_a_name_for_the_cache_root(trial: SaveTrial) -> None:
    trial.world.cache_root = os.path.join(trial.root, "x" * 300)


def _odd_bytes_in_the_name_of_the_cache_root(trial: SaveTrial) -> None:
    trial.world.cache_root = os.path.join(trial.root, os.fsdecode(b"caf\xe9\n\x1b[31m"))


OBSTACLES: Final = pytest.mark.parametrize(
    "put_up",
    [
        _a_file_for_the_cache_root,
        _a_file_for_the_plan_folder,
        _a_link_to_nowhere_for_the_cache_root,
        _a_link_to_itself_for_the_plan_folder,
        _an_empty_folder_for_the_plan,
        _a_full_folder_for_the_plan,
        _too_long_a_name_for_the_cache_root,
        _odd_bytes_in_the_name_of_the_cache_root,
    ],
    ids=lambda function: function.__name__.strip("_"),
)


@OBSTACLES
@pytest.mark.requirement("SAVE-01", "SAVE-03")
def test_an_obstacle_costs_only_the_plan(
    world: World, tally: Tally, put_up: Callable[[SaveTrial], None]
) -> None:
    """Whatever stands in the way of a save, nothing is raised and no temporary file is left."""
    trial = SaveTrial(world, over_old=False)
    shutil.rmtree(world.cache_root)
    put_up(trial)
    before = _names(trial.root)
    result = trial.save(again=False)
    new = _names(trial.root) - before
    tally(boots=world.boots)

    head = f"in the way: {put_up.__name__.strip('_').replace('_', ' ')}; {gib(NEW)} are saved"
    if result.raised is not None and result.where == "save":
        raise Violation("SAVE-01", f"{head}; the save raised {trial.brief(result.raised)}")
    # A save that went well under another name of the cache root has left its files there.
    litter = [name for name in new if os.path.basename(name) not in trial.lasting_names]
    if litter:
        raise Violation("SAVE-03", f"{head}; {len(litter)} temporary file was left")


def _names(root: str) -> set[str]:
    """Everything below a folder that is not a folder itself."""
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}


def _touch(path: str) -> None:
    with open(path, "wb"):
        pass
