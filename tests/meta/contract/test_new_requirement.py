# SPDX-License-Identifier: Apache-2.0
"""`scripts/new_requirement.py`: what a sentence lacks is listed, each thing with what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from startup_plan.harness.contract.register import Register, Requirement


def lacking(script: Any, house: Any, name: str) -> list[str]:
    """Give what each complaint is about, without the remedy."""
    return [lack.partition(":")[0] for lack in script.missing(name, house)]


def test_no_sentence_of_the_contract_lacks_anything(script: Any, house: Any) -> None:
    """What is in the register is everywhere that it has to be."""
    found = [lack for new in house.register for lack in script.missing(new.id, house)]

    assert found == []


def test_new_group_lacks_everything(script: Any, house: Any) -> None:
    """Of an id that nobody has heard of, every place is named, with what to do there."""
    found = list(script.missing("FOO-01", house))

    assert [lack.partition(":")[0] for lack in found] == [
        "a sentence",
        "its group",
        "a test",
        "a seeded fault",
        "a row in docs/reports/reference.json",
        "a row in docs/reports/vllm-0.33.0.json",
    ]
    assert all(lack.partition(": ")[2] for lack in found)


def test_number_that_is_skipped_is_said(script: Any, house: Any) -> None:
    """Ids count up without a gap, and the one that is due is named."""
    assert "the next here is GROUP-06" in " ".join(script.missing("GROUP-19", house))


@pytest.mark.parametrize(
    ("awaits", "folder", "lacks"),
    [
        (None, None, ["a test", "a seeded fault"]),
        (None, "tests/property", ["a seeded fault"]),
        (None, "tests/vllm", ["a seeded fault", "a word that a quick run skips it"]),
        ("the vote", None, []),
        ("the vote", "tests/property", ["no `awaits` any more"]),
    ],
)
def test_registered_sentence_lacks_the_rest(
    script: Any, house: Any, awaits: str | None, folder: str | None, lacks: list[str]
) -> None:
    """Once there is a sentence, the count follows, and what judges it unless it awaits that."""
    new = Requirement("GROUP-06", "costly", "A new sentence.", awaits)
    tests = {f"{folder}/test_new.py::test_it": ["GROUP-06"]} if folder else {}
    started = replace(
        house,
        register=Register([*house.register, new]),
        tests=tests,
        reported=dict.fromkeys(house.reported, frozenset(["GROUP-06"])),
    )

    assert lacking(script, started, "GROUP-06") == ["the count", *lacks]


@pytest.mark.parametrize("arguments", [[], ["KEY-1"], ["KEY-01", "KEY-02"]])
def test_wrong_usage_is_refused(
    script: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything but one id is answered with what an id looks like, and status 2."""
    assert (script.main(arguments), capsys.readouterr().err) == (
        2,
        "name one requirement, such as KEY-01\n",
    )
