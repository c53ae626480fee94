# SPDX-License-Identifier: Apache-2.0
"""The classification is complete, is of one mind with the settings table, and gives its reasons."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest

from startup_plan.harness.census import classification
from startup_plan.harness.stubs.settings import EXTRA_VARIABLES, ROWS, VARIABLES, VERSION
from startup_plan.reference.memory_settings import excluded_fields
from startup_plan.reference.variables import variable_counts

DATA: Final = classification.load()
_FIELD: Final = {(row["owner"], row["path"].rpartition(".")[2]): row for row in ROWS}
_PLACE: Final = re.compile(r"[\w/]+\.py:[1-9]\d*")

_SMALL: Final = """
oldest = "1"
newest = "2"
[reasons.weights]
moves = true
text = "Weights."
[fields.A]
b = { why = "weights", at = "a.py:1" }
[variables]
V = { why = "weights", at = "a.py:2", unsure = true, note = "Perhaps." }
"""


def test_every_field_and_variable_of_the_table_is_classified() -> None:
    """What the settings table knows is classified, and little else is."""
    names = {variable.name for variable in VARIABLES}

    assert set(_FIELD) - set(DATA.fields) == set()
    assert names - set(DATA.variables) == set()
    assert set(DATA.fields) - set(_FIELD) == {("QuantSpec", "weight"), ("QuantSpec", "activation")}
    assert {DATA.variables[name].only for name in set(DATA.variables) - names} == {DATA.oldest}
    assert DATA.newest == VERSION


def test_verdicts_are_those_of_the_table() -> None:
    """Both files say the same; what the table could not decide is unsure, or a note settles it."""
    odd = []
    for key, row in _FIELD.items():
        entry = DATA.fields[key]
        if "alternates" in row:
            settled = row["moves"] is None and not entry.moves and entry.note
            expected = {True: "moves", False: "idle", None: "unsure"}[row["moves"]]
            odd += [] if settled or entry.verdict == expected else [".".join(key)]
    for variable in VARIABLES:
        entry = DATA.variables[variable.name]
        settled = variable.moves is None and not entry.moves and entry.note
        expected = {True: "moves", False: "idle", None: "unsure"}[variable.moves]
        odd += [] if settled or entry.verdict == expected else [variable.name]

    assert odd == []


def test_sections_and_aliases_are_what_the_table_cannot_vary() -> None:
    """A section has fields of its own in the table, and nothing else is called one."""
    fixed = {key for key, row in _FIELD.items() if "alternates" not in row}
    here = {key for key, entry in DATA.fields.items() if entry.why in {"section", "alias"}}
    spoken_of = {key for key in here if "alternates" in _FIELD[key]}

    assert fixed <= here
    assert {DATA.fields[key].why for key in spoken_of} <= {"alias"}


def test_nothing_that_takes_memory_is_on_the_list_of_the_reference() -> None:
    """What moves memory is a factor, has one of its own, or is read whole by vLLM's hash."""
    out = [
        ".".join(key)
        for key, entry in DATA.fields.items()
        if entry.moves
        and key[1] in excluded_fields(key[0])
        and entry.why not in classification.OWN_FACTOR
        and not all(DATA.hashed(*key, version) for version in (DATA.oldest, DATA.newest))
    ]
    out += [
        name for name, entry in DATA.variables.items() if entry.moves and not variable_counts(name)
    ]
    out += [row.name for row in EXTRA_VARIABLES if row.moves and not variable_counts(row.name)]

    assert out == []


def test_what_is_undecided_moves() -> None:
    """Nothing is called unsure and idle at once."""
    entries = [*DATA.fields.values(), *DATA.variables.values()]

    assert [entry for entry in entries if entry.unsure and not entry.moves] == []


def test_every_entry_names_a_place_and_a_reason_that_is_a_sentence() -> None:
    """Each entry has file and line, each reason is used and is a sentence."""
    entries = {**{".".join(key): entry for key, entry in DATA.fields.items()}, **DATA.variables}
    used = {entry.why for entry in entries.values()}

    assert [name for name, entry in entries.items() if not _PLACE.fullmatch(entry.at)] == []
    assert set(DATA.reasons) == used
    assert [name for name, (_, text) in DATA.reasons.items() if not text.endswith(".")] == []
    assert {entry.only for entry in entries.values()} <= {"", DATA.oldest, DATA.newest}


def test_what_acts_through_another_field_names_one_that_the_hash_reads() -> None:
    """`through` names a field of the table that is hashed, for exactly the rows that need it."""
    hashed = {row["path"] for row in ROWS if row["hashed"]}
    through = {key: entry.through for key, entry in DATA.fields.items() if entry.through}

    assert set(through.values()) <= hashed
    assert set(through) == {key for key, row in _FIELD.items() if row.get("kind") == "through"}


def test_a_reason_decides_and_a_note_adds() -> None:
    """An entry takes its verdict from its reason; what is unsure counts as moving."""
    small = classification.parse(_SMALL)
    field, variable = small.fields["A", "b"], small.variables["V"]

    assert (field.verdict, field.sentence) == ("moves", "Weights.")
    assert (variable.verdict, variable.moves, variable.sentence) == (
        "unsure",
        True,
        "Weights. Perhaps.",
    )
    assert small.without(["A.b"]).owners() == frozenset()


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ('why = "weights", at = "a.py:1"', 'why = "mood", at = "a.py:1"', KeyError),
        ('at = "a.py:1"', 'at = "a.py:1", unsafe = true', ValueError),
        ("[variables]", "[variables", tomllib.TOMLDecodeError),
    ],
)
def test_a_slip_in_the_file_is_noticed(before: str, after: str, error: type[Exception]) -> None:
    """An unknown reason, a key that nobody reads and bad TOML are errors, never passed over."""
    with pytest.raises(error):
        classification.parse(_SMALL.replace(before, after))
