# SPDX-License-Identifier: Apache-2.0
"""The stub configurations hash what real vLLM hashes, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.census import classification
from startup_plan.harness.census import judge as census
from startup_plan.harness.census.judge import NO, PARTLY, THROUGH, YES
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.settings import CLASSES, ROWS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from startup_plan.harness.census.judge import Census

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures("audited")]

_FEWEST_BUILT: Final = 15
"""Of twenty engine arguments; a platform may refuse some of them."""


@pytest.fixture(scope="module")
def real(census_of: Callable[[str], Census]) -> Census:
    """Every field of the installed vLLM, and whether its hash moves."""
    return census_of("reference")


def stub_answers() -> dict[str, str]:
    """Path of each setting -> whether the hash of a stub configuration moves with it."""
    answers, defaults = {}, {row["path"]: row.get("default") for row in ROWS}
    for setting in SETTINGS:
        config = stub_configs.make_config()
        before, default = config.compute_hash(), defaults[setting.path]
        # As the walk of the real one does: back to the default too, where it is filled in here.
        back = [] if default == setting.default else [default]
        moved = set()
        for value in (*setting.alternates, *back):
            stub_configs.set_setting(config, setting.path, value)
            moved.add(config.compute_hash() != before)
        answers[setting.path] = PARTLY if len(moved) > 1 else YES if moved == {True} else NO
    return answers


def disagreements(
    real_fields: Mapping[str, str], stubs: Mapping[str, str], version: str
) -> list[str]:
    """What stub and real hash do not agree on, less the differences that the data file tells.

    Args:
        real_fields: `Class.field` -> what the real hash does.
        stubs: `Class.field` -> what the stub's does.
        version: the version of the real one.
    """
    found = []
    for (owner, field), entry in classification.load().fields.items():
        name = f"{owner}.{field}"
        if (
            name not in real_fields
            or entry.verdict == classification.SECTION
            or entry.why == "alias"
        ):
            continue
        stub, told = stubs.get(name, ""), entry.hashed.get(version, entry.hashed.get(""))
        expected = {True: YES, False: NO}[told] if told is not None else stub
        if entry.through:
            expected = THROUGH
            stub = THROUGH if stub == YES else stub
        if real_fields[name] != expected:
            found.append(f"{name}: real {real_fields[name]}, expected {expected}")
        if told is not None and stub == expected:
            found.append(f"{name}: the data file tells of a difference that is none")
    return sorted(found)


def by_name(answers: Mapping[str, str]) -> dict[str, str]:
    """Answers by `Class.field` instead of by path."""
    names = {setting.path: f"{setting.owner}.{setting.field}" for setting in SETTINGS}
    return {names[path]: answer for path, answer in answers.items()}


def test_stub_and_real_hash_move_with_the_same_fields(real: Census) -> None:
    """For every field of every class stub and real hash agree, or the data file says why not."""
    version = real.version
    answers = {row.name: row.hashed for row in real.fields}
    found = disagreements(answers, by_name(stub_answers()), version)

    assert found == []
    assert len(answers) > 500


def test_a_stub_that_hashes_another_field_is_noticed(real: Census) -> None:
    """A field that the stub hashes and vLLM does not, or the other way round, is named."""
    stubs = by_name(stub_answers())
    stubs["ModelConfig.seed"] = YES
    stubs["ModelConfig.max_model_len"] = NO
    answers = {row.name: row.hashed for row in real.fields}

    assert disagreements(answers, stubs, real.version) == [
        "ModelConfig.max_model_len: real yes, expected no",
        "ModelConfig.seed: real no, expected yes",
    ]


def test_every_field_was_tried(real: Census) -> None:
    """No field is passed over: each had another value, but for sections and aliases."""
    passed_over = [
        row.name
        for row in real.fields
        if row.hashed == census.UNSEEN and row.why not in {"alias", classification.SECTION}
    ]

    assert passed_over == []


def test_the_same_classes_have_a_hash_of_their_own(real: Census) -> None:
    """`compute_hash()` exists on exactly those stub classes whose originals have one."""
    classes: dict[str, Any] = real.seen["classes"]
    stubs = {row["name"]: row["compute_hash"] for row in CLASSES if row["name"] in classes}

    assert {name: classes[name]["compute_hash"] for name in stubs} == stubs
    assert len(stubs) >= 40


def test_hash_moves_when_an_engine_is_given_the_value(real: Census) -> None:
    """What moves the hash when set on a built configuration moves it when given to the engine."""
    answers = {row.path: row.hashed in {YES, THROUGH} for row in real.fields}
    built = [row for row in real.seen["constructed"] if row["moved"] is not None]

    assert {row["path"]: row["moved"] for row in built} == {
        row["path"]: answers[row["path"]] for row in built
    }
    assert len(built) >= _FEWEST_BUILT
