# SPDX-License-Identifier: Apache-2.0
"""How the census judges what it is shown, without vLLM."""

from __future__ import annotations

from typing import Any, Final

from startup_plan.harness.census import classification
from startup_plan.harness.census import judge as census

_CLASSES: Final = classification.parse("""
oldest = "1"
newest = "2"
[reasons.section]
moves = false
text = "A section."
[reasons.weights]
moves = true
text = "Weights."
[reasons.names]
moves = false
text = "Names."
[fields.Engine]
part = { why = "section", at = "a.py:1" }
[fields.Part]
layers = { why = "weights", at = "a.py:2" }
folder = { why = "weights", at = "a.py:3", through = "part.layers" }
title = { why = "names", at = "a.py:4" }
[variables]
KERNEL = { why = "weights", at = "a.py:5", unsure = true }
COLOUR = { why = "names", at = "a.py:6", only = "1" }
""")


def tried(*answers: tuple[bool | None, bool | None]) -> list[dict[str, Any]]:
    """Values that were tried: whether the hash moved, whether the key did."""
    return [
        {
            "value": number,
            "hash_moves": by_hash,
            "key_moves": by_key,
            "key_moves_alone": by_key,
            "trouble": "",
        }
        for number, (by_hash, by_key) in enumerate(answers)
    ]


def field(path: str, owner: str, *answers: tuple[bool | None, bool | None]) -> dict[str, Any]:
    """One field as the child reports it."""
    name = path.rpartition(".")[2]
    return {"path": path, "owner": owner, "field": name, "tried": tried(*answers)}


def seen(**changes: Any) -> dict[str, Any]:
    """What a child reports of a vLLM in which all is well."""
    return {
        "vllm": "1",
        "classes": {"Engine": {}, "Part": {}},
        "out_of_reach": [],
        "fields": [
            field("part", "Engine"),
            field("part.layers", "Part", (True, True), (True, True)),
            field("part.folder", "Part", (False, False)),
            field("part.title", "Part", (False, False)),
        ],
        "variables": [
            {"name": "KERNEL", "tried": tried((False, True))},
            {"name": "COLOUR", "tried": tried((False, False))},
        ],
        **changes,
    }


def test_all_is_well() -> None:
    """Everything classified and in the key is complete; a field counts through the one it sets."""
    found = census.judge(seen(), _CLASSES)

    assert found.complete
    assert [(row.name, row.hashed, row.in_key, row.verdict) for row in found.rows] == [
        ("Engine.part", "-", "-", "section"),
        ("Part.layers", "yes", "yes", "moves"),
        ("Part.folder", "through", "yes", "moves"),
        ("Part.title", "no", "no", "idle"),
        ("KERNEL", "no", "yes", "unsure"),
        ("COLOUR", "no", "no", "idle"),
    ]


def test_a_new_field_is_named() -> None:
    """A field that nobody has classified fails the census by its name, whatever the key does."""
    fields = [*seen()["fields"], field("part.scratch", "Part", (True, True))]
    found = census.judge(seen(fields=fields), _CLASSES)

    assert found.unclassified == ["Part.scratch"]
    assert not found.complete
    assert "[fields.Part] in harness/census/census.toml" in found.fields[-1].reason


def test_a_new_variable_is_named() -> None:
    """A variable that nobody has classified fails the census by its name."""
    variables = [*seen()["variables"], {"name": "SCRATCH", "tried": tried((False, True))}]
    found = census.judge(seen(variables=variables), _CLASSES)

    assert (found.unclassified, found.complete) == (["SCRATCH"], False)


def test_a_new_class_is_named() -> None:
    """A configuration class of which nothing is classified is named, with its fields."""
    fields = [*seen()["fields"], field("later.size", "Later", (False, True))]
    found = census.judge(seen(fields=fields), _CLASSES)

    assert (found.unknown_classes, found.unclassified) == (("Later",), ["Later.size"])


def test_a_class_that_cannot_be_reached_is_named() -> None:
    """A class whose fields could not be looked at fails the census."""
    found = census.judge(
        seen(classes={"Engine": {}, "Part": {}, "Far": {}}, out_of_reach=["Far"]), _CLASSES
    )

    assert (found.out_of_reach, found.unknown_classes, found.complete) == (
        ("Far",),
        ("Far",),
        False,
    )


def test_what_takes_memory_and_leaves_the_key_is_a_gap() -> None:
    """One value that leaves the key as it was is enough, and is told; what is unsure counts."""
    fields = seen()["fields"]
    fields[1] = field("part.layers", "Part", (True, True), (False, False))
    variables = [{"name": "KERNEL", "tried": tried((False, False))}, seen()["variables"][1]]
    found = census.judge(seen(fields=fields, variables=variables), _CLASSES)

    assert [(row.name, row.in_key, row.unseen) for row in found.gaps] == [
        ("Part.layers", "partly", ("1",)),
        ("Part.folder", "no", ("0",)),
        ("KERNEL", "no", ("0",)),
    ]
    assert not found.complete


def test_what_could_not_be_tried_is_a_gap() -> None:
    """A field that takes memory and was not tried, or showed no key, is not taken for granted."""
    fields = seen()["fields"]
    fields[1] = field("part.layers", "Part", (True, None))
    found = census.judge(seen(fields=fields), _CLASSES)

    assert [row.in_key for row in found.gaps] == ["?", "no"]


def test_what_is_in_the_key_without_need_is_told() -> None:
    """A field or variable that takes no memory and moves the key is told, and is no failure."""
    fields = seen()["fields"]
    fields[3] = field("part.title", "Part", (False, True))
    variables = [seen()["variables"][0], {"name": "COLOUR", "tried": tried((False, True))}]
    found = census.judge(seen(fields=fields, variables=variables), _CLASSES)

    assert [row.name for row in census.needless(found)] == ["Part.title", "COLOUR"]
    assert found.complete


def test_a_variable_that_only_sets_a_field_is_not_needless() -> None:
    """Where the key moves with a field that the variable sets, the field is judged."""
    variables = seen()["variables"]
    variables[1]["tried"] = [{**tried((False, True))[0], "key_moves_alone": False}]

    assert census.needless(census.judge(seen(variables=variables), _CLASSES)) == []


def test_what_an_audited_version_lacks_is_stale() -> None:
    """What is classified for this version and is not there is named; other versions say nothing."""
    variables = seen()["variables"][:1]

    assert census.judge(seen(variables=variables), _CLASSES).stale == ("COLOUR",)
    assert census.judge(seen(variables=variables, vllm="1+cpu"), _CLASSES).stale == ("COLOUR",)
    assert census.judge(seen(variables=variables, vllm="2"), _CLASSES).stale == ()
    assert census.judge(seen(variables=[], vllm="1.5"), _CLASSES).stale == ()


def test_counts_are_by_class() -> None:
    """Fields and variables are counted by class, and by what the hash and the key leave out."""
    fields = seen()["fields"]
    fields[1] = field("part.layers", "Part", (False, True))
    numbers = census.counts(census.judge(seen(fields=fields), _CLASSES))

    assert numbers["fields"] == {
        "moves": 2,
        "unsure": 0,
        "idle": 1,
        "section": 1,
        "unclassified": 0,
        "moves or unsure, not in vLLM's hash": 2,
        "moves or unsure, not in the key": 0,
    }
    assert numbers["variables"]["unsure"] == 1
