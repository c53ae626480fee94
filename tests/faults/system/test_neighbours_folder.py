# SPDX-License-Identifier: Apache-2.0
"""A plan folder that is a link, from the start or from the midst of a save on.

An operator who moves the folder to another disk leaves a link behind; that is his to decide, so a
link that is there from the start is followed. A link that takes the folder's place in the midst of
a save is somebody's attack or somebody's move, which cannot be told apart: the save may go there,
or nowhere, but no file that lies there is touched, and nothing is raised.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation, reached
from startup_plan.harness.operations.faults import intrude_at
from startup_plan.harness.operations.neighbours import Victims
from startup_plan.harness.operations.save_trial import NEW, OLD, SaveTrial
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

FOLDERS: Final = pytest.mark.parametrize("which", ["cache root", "plan folder"])


def _a_link(path: str, victims: Victims) -> None:
    os.symlink(victims.folder, path)


def _a_link_to_nowhere(path: str, victims: Victims) -> None:
    os.symlink(victims.nowhere, path)


def _a_file(path: str, _victims: Victims) -> None:
    with open(path, "wb"):
        pass


def _nothing(_path: str, _victims: Victims) -> None:
    pass


SWAPS: Final[dict[str, Callable[[str, Victims], None]]] = {
    "a link to somebody's folder": _a_link,
    "a link to nowhere": _a_link_to_nowhere,
    "a file": _a_file,
    "nothing": _nothing,
}


@FOLDERS
@pytest.mark.requirement("LOAD-08")
def test_a_folder_that_was_moved_and_linked_keeps_working(
    world: World, tally: Tally, which: str
) -> None:
    """Where an operator has put a link in the place of the folder, plans lie behind the link."""
    trial = SaveTrial(world, over_old=True)
    trial.put_back()
    folder = _path(world, which)
    elsewhere = os.path.join(trial.root, "another disk")
    os.rename(folder, elsewhere)
    os.symlink(elsewhere, folder)
    moved = trial.next_boot()
    saved = trial.save(again=False)
    later = trial.next_boot()
    tally(boots=world.boots)

    story = f"{gib(OLD)} were saved; the {which} was moved and a link left in its place"
    if moved.applied != OLD:
        raise Violation("LOAD-08", f"{story}; {moved}")
    if later.applied != NEW or not os.path.islink(folder):
        raise Violation("LOAD-08", f"{story}; {saved}; {later}")


@FOLDERS
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.requirement("SAVE-01", "SAVE-05")
def test_a_folder_that_is_swapped_in_the_midst_of_a_save(
    world: World, tally: Tally, swap: str, which: str, over_old: bool
) -> None:
    """Whenever the folder is swapped, nothing is raised and no file behind a link is touched."""
    trial = SaveTrial(world, over_old=over_old)
    folder, aside = _path(world, which), os.path.join(trial.root, "aside")
    swaps = 0
    for n in itertools.count(1):
        trial.put_back()
        outside = Victims(os.path.join(trial.root, f"outside {n}"))

        def act(_: Operation, outside: Victims = outside) -> None:
            nonlocal swaps
            if os.path.isdir(folder):
                os.rename(folder, f"{aside} {swaps}")
                SWAPS[swap](folder, outside)
                swaps += 1

        fault = intrude_at(trial.root, n, act, lambda o: o.meets_others)
        result = trial.save(fault, again=False)
        harm = outside.harm(may_grow=swap.startswith("a link"))
        _tidy(folder)
        if not fault.fired:
            break
        story = (
            f"{trial.setting}; before {trial.describe(fault.hit)} {swap} takes the place of the "
            f"{which}"
        )
        if result.raised is not None:
            raised = f"{type(result.raised).__name__}: {result.raised}"
            raise Violation("SAVE-01", f"{story}; the {result.where} raised {raised}")
        if harm:
            raise Violation("SAVE-05", f"{story}; {harm}")
    tally(swaps=swaps, boots=world.boots)

    reached(swaps, "an operation before which the folder can be swapped")


def _path(world: World, which: str) -> str:
    return world.cache_root if which == "cache root" else world.plan_folder


def _tidy(folder: str) -> None:
    """Remove what was put in the place of the folder, so that the disk can be put back."""
    if os.path.islink(folder) or os.path.isfile(folder):
        os.unlink(folder)
