# SPDX-License-Identifier: Apache-2.0
"""What stands in a story, and which stories tell the same."""

from __future__ import annotations

import traceback

import pytest

from startup_plan.harness.verdict.judgement import Evidence
from startup_plan.harness.verdict.record import Finding, Record
from startup_plan.harness.verdict.stories import kind_of, without_noise


def _printed(error: BaseException) -> str:
    """Give what Python prints of an error that is raised."""
    with pytest.raises(type(error)) as caught:
        raise error
    return "".join(traceback.format_exception(caught.value))


NOISE = {
    "traceback": (_printed(ValueError("no plan")), "ValueError: no plan"),
    "group": (
        _printed(ExceptionGroup("two", [ValueError("no plan"), OSError("no disk")])),
        "ValueError: no plan\nOSError: no disk",
    ),
    "example": (
        "boot 1 applied it\nFalsifying example: test_life(\n    number=7,\n)\nthen it hung",
        "boot 1 applied it\nthen it hung",
    ),
    "explicit": ("Failing explicit example: test_life(number=7)\nit hung", "it hung"),
    "advice": (
        "it hung\nYou can reproduce this example by temporarily adding @reproduce_failure(1, b'')",
        "it hung",
    ),
    "place": (
        "it raised /x/startup_plan/harness/world/world.py:214: AssertionError",
        "it raised: AssertionError",
    ),
}


@pytest.mark.parametrize("name", NOISE)
def test_what_a_runner_prints_stands_in_no_story(name: str) -> None:
    """Tracebacks, examples of Hypothesis and places in the harness are left out."""
    text, wanted = NOISE[name]
    story = without_noise(text)
    unwanted = ("Traceback", "File ", "ExceptionGroup", "xample:", "reproduce", ".py", "+---")

    assert (wanted in story, [word for word in unwanted if word in story]) == (True, [])


def test_a_story_is_left_as_it_is() -> None:
    """What a test told of a subject stays, word for word, also where it is about a raise."""
    story = "a plan lies at /cache/p.json\n  the look-up raised ValueError: File too large\nalso: x"

    assert without_noise(story) == story


def test_evidence_is_cleaned_whoever_gives_it() -> None:
    """Records of every origin lose their noise in one place, where they are taken in."""
    evidence, noisy = Evidence(), "it hung\nFalsifying example: t(\n    n=1,\n)"
    findings = (Finding("KEY-01", noisy),)
    evidence.add(Record("t", ("KEY-01",), "failed", ("KEY-01",), noisy, findings=findings))
    (record,) = evidence.records.values()

    assert (record.story, record.findings) == ("it hung", (Finding("KEY-01", "it hung"),))


SAME = [
    (
        "boot at 0.8 saved 54.95 GiB; boot at 0.5 applied 54.95 GiB (5900 bytes)",
        "boot at 0.9 saved 8.00 GiB; lowered; boot at 0.35 applied 8.00 GiB",
    ),
    ("both boots look for plan fc2f06ab48950aae", "both boots look for plan 00aa"),
    ("1 temporary file was left", "3 temporary files were left"),
    ("links lie there; it wrote 9 bytes into /tmp/a/b", "it wrote 122 bytes into /srv/plan"),
    (
        "77 of 240 settings do not move the key: a.b, c.d",
        "8 of 9 settings do not move the key: e, f",
    ),
    ("x; the look-up raised ValueError: no int", "y; the look-up raised KeyError: 'schema'"),
    (
        "after the loss A found no plan; crash[two,k=12,dir=0] (14 such states)",
        "after the loss A found no plan; crash[first,k=returned,dir=1] (2 such states)",
    ),
    ("it looks for 'plan.json.tmp.7'", "it looks for 'x'"),
    ("rank 1's plan and rank 2's plan differ", "rank 0's plan and rank 3's plan differ"),
]

OTHER = [
    ("the look-up applied 59 bytes", "the look-up raised ValueError: no"),
    ("the save left 1 temporary file", "the save wrote 122 bytes into the file of a link"),
    (
        "the worker's plan and the device's name differ",
        "the worker's key and the device's name differ",
    ),
    ("rank 0 applied; the group hangs", "rank 0 applied; a rank fails"),
    ("after the loss A found no plan; crash[a,k=1]", "after the loss A applied 5; crash[a,k=1]"),
]


@pytest.mark.parametrize(("one", "another"), SAME)
def test_what_varies_makes_no_other_kind(one: str, another: str) -> None:
    """Numbers, counts, keys, paths, lists and the way to the end do not make a story another."""
    assert kind_of(one) == kind_of(another) != ""


@pytest.mark.parametrize(("one", "another"), OTHER)
def test_another_end_is_another_kind(one: str, another: str) -> None:
    """A story that ends in something else is of another kind."""
    assert kind_of(one) != kind_of(another)
