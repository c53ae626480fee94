# SPDX-License-Identifier: Apache-2.0
"""The fuzz target: it finds what is wrong, and says so in a sentence; without atheris as well."""

from __future__ import annotations

import importlib.util
import random
from typing import TYPE_CHECKING

import pytest

from startup_plan.cli import main as cli
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.damage.fuzz import target
from startup_plan.harness.damage.sweep import VariantReader
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.reader import plain_engine, save_plan
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo.catalogue import load_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BROKEN = next(slug for slug, entry in load_catalogue().items() if entry.requirement == "LOAD-01")


def fuzzed(subject: str, folder: Path, rounds: int) -> str:
    """The story that random buffers lead to, "" if none."""
    dice = random.Random(7)  # noqa: S311  # the same buffers in every run
    with World(load_subject(subject), folder) as world:
        engine = plain_engine()
        saved = save_plan(world, engine)
        with VariantReader(world, engine, [saved]) as bench:
            run = target(bench, saved)
            try:
                for _ in range(rounds):
                    run(dice.randbytes(400))
            except Violation as error:
                return str(error)
    return ""


def test_the_target_finds_a_look_up_that_raises(
    fresh_folder: Callable[[], Path], seeded: Callable[[str], str]
) -> None:
    """A subject that lets an exception out of its look-up is found within a few hundred inputs."""
    assert fuzzed(seeded(BROKEN), fresh_folder(), 600).startswith("LOAD-01")


def test_the_target_finds_nothing_wrong_with_the_reference(
    fresh_folder: Callable[[], Path],
) -> None:
    """The same inputs are misses for a subject that keeps the contract."""
    assert fuzzed("reference", fresh_folder(), 600) == ""


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is not None, reason="atheris is installed here"
)
def test_without_atheris_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A missing extra is named, with status 2."""
    status = cli.run(["fuzz"])

    assert (status, "startup-plan[fuzz]" in capsys.readouterr().err) == (2, True)
