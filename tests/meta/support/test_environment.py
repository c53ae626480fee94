# SPDX-License-Identifier: Apache-2.0
"""What a boot sees of the variables of its machine, and where its plans lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from startup_plan.support.environment import (
    DEVICES,
    FLAG,
    clean_environment,
    flag_value,
    is_foreign,
    is_hidden,
    variables,
)
from startup_plan.support.plan_files import is_plan, key_of, plan_folder, plans_below

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "alone", "on_a_device"),
    [(FLAG, True, True), ("CUDA_VISIBLE_DEVICES", True, False), ("PATH", False, False)],
)
def test_what_could_matter_is_hidden(name: str, *, alone: bool, on_a_device: bool) -> None:
    """What moves a boot is hidden, but for what finds a device where one is needed."""
    assert (is_hidden(name), is_hidden(name, DEVICES)) == (alone, on_a_device)


@pytest.mark.parametrize(
    ("name", "foreign"),
    [("ACME_POOL", True), (FLAG, True), ("SLURM_JOB_ID", True), ("PATH", False), ("HOME", False)],
)
def test_a_simulated_process_has_little_of_its_machine(name: str, *, foreign: bool) -> None:
    """A variable of the machine that a key could have in it is not there; what Python needs is."""
    assert is_foreign(name) is foreign


def test_variables_are_put_back() -> None:
    """Changes last as long as the block, also those of variables that were not set."""
    before = dict(os.environ)
    with variables({FLAG: "1", "HOME": None}):
        seen = (FLAG in os.environ, "HOME" in os.environ, FLAG in clean_environment())

    assert seen == (True, False, False)
    assert dict(os.environ) == before


@pytest.mark.parametrize(("enabled", "text"), [(True, "1"), (False, "0"), (None, None)])
def test_the_flag_has_three_states(*, enabled: bool | None, text: str | None) -> None:
    """On, off, and not set at all."""
    assert flag_value(enabled).get(FLAG) == text


def test_plans_are_found_by_their_names(tmp_path: Path) -> None:
    """Only files that are called as plans are, sorted; none where there is no folder."""
    root = str(tmp_path)
    none = plans_below(root)
    os.mkdir(plan_folder(root))
    for name in ("startup_plan_b.json", "startup_plan_a.json", "startup_plan_a.tmp", "a.json"):
        (tmp_path / "startup_plan" / name).touch()
    found = plans_below(root)

    assert (none, [key_of(path) for path in found]) == ([], ["a", "b"])
    assert all(is_plan(os.path.basename(path)) for path in found)
