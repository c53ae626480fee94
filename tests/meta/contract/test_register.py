# SPDX-License-Identifier: Apache-2.0
"""The register and the suite, held against each other, and the register against its own form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.harness.contract.register import (
    LEVELS,
    Register,
    RegisterError,
    Requirement,
    load_register,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def disagreements(register: Register, catalogue: Mapping[str, Sequence[str]]) -> list[str]:
    """Say everything in which the register and the markers of a suite do not agree."""
    judged = {requirement_id for ids in catalogue.values() for requirement_id in ids}
    found = [
        f"{nodeid} names {requirement_id}, which is not in the register"
        for nodeid, ids in catalogue.items()
        for requirement_id in ids
        if requirement_id not in register
    ]
    for requirement in register:
        if requirement.id in judged and requirement.awaits is not None:
            found.append(f"{requirement.id} has tests and still says `awaits`")
        if requirement.id not in judged and requirement.awaits is None:
            found.append(f"{requirement.id} has neither a test nor an `awaits`")
    return found


def test_register_and_suite_agree(house: Any) -> None:
    """Every requirement has a test or says what it awaits, and every test names requirements."""
    assert disagreements(load_register(), house.tests) == []


@pytest.mark.parametrize(
    ("awaits", "ids", "complaint"),
    [
        (None, [], "KEY-01 has neither a test nor an `awaits`"),
        ("a part", ["KEY-01"], "KEY-01 has tests and still says `awaits`"),
        (None, ["KEY-01", "KEY-99"], "t names KEY-99, which is not in the register"),
    ],
)
def test_disagreements_are_found(awaits: str | None, ids: list[str], complaint: str) -> None:
    """An id without a test, a test with an unknown id, and a reason too many are all found."""
    register = Register([Requirement("KEY-01", "unsafe", "A sentence.", awaits)])

    assert disagreements(register, {"t": ids}) == [complaint]


def test_agreement_is_silent() -> None:
    """A register and a suite that agree give nothing to complain about."""
    register = Register(
        [
            Requirement("KEY-01", "unsafe", "A sentence."),
            Requirement("KEY-02", "unsafe", "Another.", "a part"),
        ]
    )

    assert disagreements(register, {"t": ["KEY-01"]}) == []


def test_register_holds_every_group_and_level() -> None:
    """The register is the whole contract: eight groups, three levels, numbered without a gap."""
    ids = [requirement.id for requirement in load_register()]
    groups = list(dict.fromkeys(name.partition("-")[0] for name in ids))
    expected = [
        f"{group}-{number:02}"
        for group in groups
        for number in range(1, 1 + sum(name.startswith(f"{group}-") for name in ids))
    ]

    assert (groups, ids, {requirement.level for requirement in load_register()}) == (
        ["KEY", "GATE", "LOAD", "SAVE", "BOOT", "GROUP", "LOG", "ART"],
        expected,
        set(LEVELS),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("[KEY-01", "cannot be read"),
        ("\xff", "cannot be read"),
        ('[KEY-01]\nlevel = "unsafe"', "KEY-01 has no sentence"),
        ('[KEY-01]\nlevel = "unsafe"\nsentence = " "', "KEY-01 has no sentence"),
        ('[KEY-01]\nlevel = "grave"\nsentence = "A."', "level of KEY-01 must be one of unsafe"),
        ('[KEY-1]\nlevel = "unsafe"\nsentence = "A."', "'KEY-1' is no requirement id"),
        ('KEY-01 = "unsafe"', "KEY-01 must be a table"),
        ('[KEY-01]\nlevel = "unsafe"\nsentence = "A."\nwaits = "b"', "unknown field 'waits'"),
        ('[KEY-01]\nlevel = "unsafe"\nsentence = "A."\nawaits = ""', "without a reason"),
        ('[KEY-01]\nlevel = "unsafe"\nsentence = "A."\n[KEY-01]', "cannot be read"),
    ],
)
def test_malformed_register_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    """What is wrong with a register is said in a sentence that names the place."""
    path = tmp_path / "contract.toml"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(RegisterError, match=complaint):
        load_register(path)


def test_missing_register_is_refused(tmp_path: Path) -> None:
    """A register that is not there is a sentence, too."""
    with pytest.raises(RegisterError, match="cannot be read"):
        load_register(tmp_path / "contract.toml")


@pytest.mark.parametrize(
    ("wrong", "meant"), [("KEY-2", "KEY-02"), ("key-02", "KEY-02"), ("KEY_02", "KEY-02")]
)
def test_nearest_ids_are_named(wrong: str, meant: str) -> None:
    """A mistyped id is answered with the ids that may have been meant."""
    assert meant in load_register().describe_unknown(wrong)


def test_hopeless_id_is_told_the_form() -> None:
    """An id that resembles none is answered with what an id looks like."""
    assert "they look like KEY-01" in load_register().describe_unknown("utilization")
