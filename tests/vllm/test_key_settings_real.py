# SPDX-License-Identifier: Apache-2.0
"""The key of any subject on configurations that real vLLM has built."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.census import judge as census
from startup_plan.harness.census.controls import CONFIGURATIONS
from startup_plan.harness.census.look import NO_KEY
from startup_plan.harness.contract.violation import NeverReachedError, Violation
from startup_plan.harness.histories import keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.census.judge import Census, Row
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.subject import Subject

pytestmark = [pytest.mark.vllm, pytest.mark.control(CONFIGURATIONS)]

_SHOWN: Final = 8


@pytest.fixture
def real(subject: Subject, census_of: Callable[[str], Census]) -> Census:
    """What every field and variable of the installed vLLM does to the key of the subject."""
    found = census_of(subject.name)
    unseen = [key for key in found.seen["keys"].values() if key.startswith(NO_KEY)]
    if unseen:
        raise NeverReachedError(
            f"a key with a real configuration: {unseen[0].removeprefix(NO_KEY)}"
        )
    return found


def _story(real: Census, rows: list[Row], gaps: list[Row], what: str) -> str:
    missed = sum(row.hashed in {census.NO, census.PARTLY} for row in gaps)
    version = real.seen["vllm"]
    worst = gaps[0]
    value = f" at {keys.shown(worst.unseen[0])}" if worst.unseen else ""
    key = next(iter(real.seen["keys"].values()))
    return (
        f"{len(gaps)} of {len(rows)} {what} of vLLM {version} that take memory do not move the key "
        f"({missed} of them are not in the config hash either): "
        f"{keys.listed([row.name for row in gaps], _SHOWN)}\n"
        f"{worst.name}{value}: the boot looks for the same plan as before, e.g. "
        f"startup_plan_{key}.json. {worst.reason}"
    )


def _names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.requirement("KEY-10")
def test_every_real_setting_that_moves_memory_moves_the_key(real: Census, tally: Tally) -> None:
    """Any field of a real configuration that takes memory, changed alone, gives another key."""
    rows = [
        row
        for row in real.fields
        if row.verdict == "moves" and row.path not in keys.JUDGED_ELSEWHERE
    ]
    gaps = [row for row in rows if row.is_gap]
    tally(boots=real.seen["boots"], examples=len(rows))  # one look serves all tests of this file

    if gaps:
        raise Violation("KEY-10", _story(real, rows, gaps, "real settings"), _names(gaps))


@pytest.mark.requirement("KEY-11")
def test_every_real_variable_that_moves_memory_moves_the_key(real: Census, tally: Tally) -> None:
    """Any registered variable that takes memory, set alone in a real engine, gives another key."""
    rows = [row for row in real.variables if row.verdict == "moves"]
    gaps = [row for row in rows if row.is_gap]
    tally(examples=len(rows))

    if gaps:
        story = _story(real, rows, gaps, "registered variables")
        raise Violation("KEY-11", story, _names(gaps))


@pytest.mark.requirement("KEY-11")
def test_real_variables_of_the_allocator_and_communicator_move_the_key(
    real: Census, tally: Tally
) -> None:
    """Variables that vLLM does not register, but that take memory, give another key as well."""
    extra = real.seen["extra_variables"]
    unseen = [row["name"] for row in extra if not all(one["key_moves"] for one in row["tried"])]
    tally(examples=len(extra))

    if unseen:
        raise Violation(
            "KEY-11",
            f"{len(unseen)} of {len(extra)} variables of the allocator and the communicator do "
            f"not move the key: {keys.listed(unseen, _SHOWN)}",
            unseen,
        )


@pytest.mark.requirement("KEY-14")
def test_real_settings_that_take_no_memory_do_not_move_the_key(real: Census, tally: Tally) -> None:
    """Ports, names, seeds and log levels of a real engine leave its key as it is."""
    rows = [row for row in real.rows if row.verdict == "idle"]
    needless = census.needless(real)
    tally(examples=len(rows))

    if needless:
        raise Violation(
            "KEY-14",
            f"{len(needless)} of {len(rows)} real settings and variables that take no memory and "
            f"are not in the config hash move the key: "
            f"{keys.listed([row.name for row in needless], _SHOWN)}",
        )


@pytest.mark.requirement("KEY-13")
def test_real_engines_that_are_equal_have_equal_keys(
    subject: Subject, tmp_path: Path, tally: Tally
) -> None:
    """Two processes with other hash seeds, folders and variable orders give each engine one key."""
    models, seen = tmp_path / "models", []
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        environ = dict(os.environ)
        if seed == "2":
            environ = dict(reversed(environ.items()))
        environ |= {"PYTHONHASHSEED": seed, "POD_NAME": f"pod-{seed}", "VLLM_PORT": f"470{seed}"}
        name = os.path.abspath(subject.name) if os.path.exists(subject.name) else subject.name
        found = census.look(
            name,
            environ=environ,
            folder=str(tmp_path / seed),
            only_keys=True,
            models=str(models),
        )
        seen.append(found["keys"])
    tally(boots=2 * len(seen[0]))
    unequal = [kind for kind in seen[0] if seen[0][kind] != seen[1][kind]]

    if unequal:
        raise Violation(
            "KEY-13",
            f"{len(unequal)} of {len(seen[0])} real engines have another key in another process: "
            f"{unequal[0]} has {seen[0][unequal[0]]} with PYTHONHASHSEED=1 and "
            f"{seen[1][unequal[0]]} with PYTHONHASHSEED=2",
        )
