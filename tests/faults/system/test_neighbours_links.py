# SPDX-License-Identifier: Apache-2.0
"""Links of every kind that somebody else puts where a save writes, before it and while it goes on.

Who can write to the cache root must not be able to have an engine, which may run as root, write to
a file of his choice. `test_temporary.py` has the simplest case, a symbolic link to a file;
here are the other kinds, and a neighbour who acts in the midst of a save.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.faults import intrude_at
from startup_plan.harness.operations.neighbours import PLANTED, Victims
from startup_plan.harness.operations.save_trial import NEW, SaveTrial
from startup_plan.harness.stubs.units import gib

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.operations.faults import Matching
    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

pytestmark = [
    pytest.mark.requirement("SAVE-01", "SAVE-05"),
    pytest.mark.parametrize("what", PLANTED),
]

_NAMES: Final = ("{}.tmp", "{}.tmp.{pid}", "{}.{pid}.tmp", "{}~", "{}.new", "{}.part")
"""Names that a neighbour would try for the temporary file of a plan."""


def test_what_lies_at_likely_names_is_not_followed(
    world: World, tally: Tally, what: str, over_old: bool
) -> None:
    """Links at names that earlier saves used, or that anybody would guess, lead a save nowhere."""
    trial, victims = _scene(world, over_old=over_old)
    used = {
        found.new_name
        for found in trial.clean.operations
        if found.new_name and not os.path.lexists(found.new_name)
    }
    likely = {name.format(trial.plan, pid=os.getpid()) for name in _NAMES}
    trial.put_back()
    os.makedirs(world.plan_folder, exist_ok=True)
    planted = [_plant(what, name, victims) for name in sorted(used | likely)]
    result = trial.save(again=False)
    tally(plantings=sum(planted), boots=world.boots)

    story = f"{trial.setting}; at every name that a save might use there is {what}"
    _judge(story, result, victims)
    if (applied := trial.next_boot().applied) != NEW:
        raise Violation(
            "SAVE-05",
            f"{story}; {gib(NEW)} were to be saved; the next boot applied {gib(applied)}: who "
            "takes a name that he can predict keeps every plan from being stored",
        )


def test_a_link_that_appears_before_a_file_is_created_is_not_followed(
    world: World, tally: Tally, what: str, over_old: bool
) -> None:
    """Whoever guesses the very name that a save is about to create gains nothing by it."""
    trial, victims = _scene(world, over_old=over_old)
    planted = 0

    def take(operation: Operation) -> None:
        nonlocal planted
        planted += _plant(what, operation.new_name, victims)

    _judge_each(trial, victims, take, lambda o: bool(o.new_name), f"{what} appears at that name")
    tally(plantings=planted, boots=world.boots)

    if not planted:
        pytest.skip("this save has no temporary file in whose place anything could be put")


def test_a_link_at_the_path_of_the_plan_is_not_written_through(
    world: World, tally: Tally, what: str, over_old: bool
) -> None:
    """A save puts its plan in the place of a link, or nowhere, and never where the link leads."""
    trial, victims = _scene(world, over_old=over_old)
    trial.put_back()
    os.makedirs(world.plan_folder, exist_ok=True)
    if over_old:
        os.unlink(trial.plan)
    planted = _plant(what, trial.plan, victims)
    result = trial.save(again=False)
    tally(plantings=planted, boots=world.boots)

    _judge(f"at the path of the plan there is {what}", result, victims)


def test_a_neighbour_who_swaps_files_for_links_does_no_harm(
    world: World, tally: Tally, what: str, over_old: bool
) -> None:
    """A link that takes the place of a temporary file in the midst of a save leads it nowhere."""
    trial, victims = _scene(world, over_old=over_old)
    planted = 0

    def swap(_: Operation) -> None:
        nonlocal planted
        for name in world.files():
            path = os.path.join(world.plan_folder, name)
            if path != trial.plan:
                os.unlink(path)
                planted += _plant(what, path, victims)

    how = f"{what} takes the place of each temporary file"
    _judge_each(trial, victims, swap, lambda o: o.meets_others, how)
    tally(plantings=planted, boots=world.boots)

    if not planted:
        pytest.skip("this save has no temporary file in whose place anything could be put")


def _scene(world: World, *, over_old: bool) -> tuple[SaveTrial, Victims]:
    """A save that can be repeated, and what it could harm."""
    trial = SaveTrial(world, over_old=over_old)
    return trial, Victims(os.path.join(trial.root, "outside"))


def _plant(what: str, path: str, victims: Victims) -> bool:
    """Put it there, if there is a folder for it and nothing is in the way."""
    if os.path.lexists(path) or not os.path.isdir(os.path.dirname(path)):
        return False
    PLANTED[what](path, victims)
    return True


def _judge_each(
    trial: SaveTrial,
    victims: Victims,
    act: Callable[[Operation], None],
    matching: Matching,
    how: str,
) -> None:
    """Let somebody act before each operation of a kind, one save at a time."""
    for attempt in trial.each(
        lambda n: intrude_at(trial.root, n, act, matching), f"before {{}} {how}"
    ):
        _judge(f"{trial.setting}; {attempt.label}", attempt.result, victims)


def _judge(story: str, result: BootResult, victims: Victims) -> None:
    if result.raised is not None:
        raised = f"the {result.where} raised {type(result.raised).__name__}: {result.raised}"
        raise Violation("SAVE-01", f"{story}; {raised}")
    if harm := victims.harm():
        raise Violation("SAVE-05", f"{story}; {gib(NEW)} are saved; {harm}")
