# SPDX-License-Identifier: Apache-2.0
"""The suite judged by subjects whose verdict is known: seeded faults, and a correct rewrite.

Here each fault meets the tests of the requirement that it names, which must fail, and the rewrite
meets the whole suite, which must not. That no fault is caught by anything else takes the whole
suite once a fault: `startup-plan zoo --run` does that, and `.ci/run` calls it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.run import GateRequest, run_gate
from startup_plan.harness.gate.suite import find_suite
from startup_plan.harness.verdict.judgement import Terms
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.zoo.catalogue import (
    Change,
    EntryError,
    ZooEntry,
    load_catalogue,
    read_entry,
)
from startup_plan.harness.zoo.run import run_zoo
from startup_plan.harness.zoo.seed import source_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.zoo.catalogue import Kind

CATALOGUE: Final = load_catalogue()
FAULTS: Final = [entry for entry in CATALOGUE.values() if entry.kind == "fault"]
CORRECT: Final = [slug for slug, entry in CATALOGUE.items() if entry.kind == "correct"]

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[entry.slug for entry in FAULTS])
each_that_can_show = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(entry, id=entry.slug, marks=[pytest.mark.needs(*entry.needs)])
        for entry in FAULTS
    ],
)

ONLY_ON_REAL_VLLM: Final[frozenset[str]] = frozenset()
"""Sentences of which a quick run judges nothing."""


@each_that_can_show
def test_fault_is_caught_by_the_requirement_it_names(fault: ZooEntry) -> None:
    """The tests of the requirement that a fault names fail on it, with a story."""
    (verdict,) = run_zoo([fault], only=lambda entry: [str(entry.requirement)])

    assert (verdict.outcome, verdict.elsewhere, verdict.trouble) == ("caught", (), "")
    assert verdict.violated[str(fault.requirement)]


@pytest.mark.parametrize("name", ["reference", *CORRECT])
def test_what_is_correct_raises_no_alarm(name: str, seeded: Callable[[str], str]) -> None:
    """The whole suite holds on the reference, and on a plan that it was not written for."""
    subject = seeded(name) if name in CATALOGUE else name
    register = load_register()
    outcome = run_gate(GateRequest(subject, Terms(register), find_suite(), profile="quick"))
    awaited = {requirement.id for requirement in register if requirement.awaits is not None}
    awaited |= ONLY_ON_REAL_VLLM
    verdicts = {result.requirement.id: result.status for result in outcome.report.results}

    assert {id_: status for id_, status in verdicts.items() if status != "holds"} == dict.fromkeys(
        sorted(awaited, key=list(verdicts).index), "not-run"
    )


def test_faults_are_spread_over_the_contract() -> None:
    """Every requirement that this release judges has a seeded fault."""
    judged = {requirement.id for requirement in load_register() if requirement.awaits is None}
    named = {entry.requirement for entry in FAULTS}

    assert judged - named == set()


@each_fault
def test_fault_names_requirements_that_are_judged(fault: ZooEntry) -> None:
    """A fault and its consequences name requirements of the register that have tests."""
    register = load_register()
    named = [str(fault.requirement), *fault.consequences]

    assert [id_ for id_ in named if id_ not in register or register[id_].awaits] == []


@each_fault
def test_fault_is_a_startup_plan_of_its_own(fault: ZooEntry, seeded: Callable[[str], str]) -> None:
    """A fault loads as a subject with all of its functions, and says where it comes from."""
    subject = load_subject(seeded(fault.slug))

    assert subject.missing == ()
    assert fault.origin.startswith(("R", "measured: "))


def test_no_two_faults_are_the_same() -> None:
    """Titles and sources are all different: none of the faults is there twice."""
    titles = Counter(entry.title for entry in CATALOGUE.values())
    sources = Counter(repr(sources_of(entry)) for entry in CATALOGUE.values())

    assert (titles.most_common(1)[0][1], sources.most_common(1)[0][1]) == (1, 1)


@pytest.mark.parametrize("find", ["no such text in the rewrite", "return"])
def test_fault_whose_place_is_gone_is_refused(find: str) -> None:
    """A fault whose place in the rewrite has changed is an error, not another fault or none."""
    moved = replace(FAULTS[0], changes=(Change(find, "pass"),))
    with pytest.raises(EntryError, match=rf"{find}' occurs \d+ times in rewrite.py, not once"):
        source_of(moved)
    (verdict,) = run_zoo([moved])

    assert (verdict.outcome, find in verdict.trouble) == ("NOT CAUGHT", True)


_FAULT: Final = """
title = "A fault"
requirement = "KEY-01"
consequences = ["BOOT-07"]
needs = ["vllm"]
origin = "measured: somewhere"
description = "What was done."
[[change]]
find = '''
import contextlib
'''
replace = ''
"""


def test_everything_in_a_data_file_is_in_the_entry(tmp_path: Path) -> None:
    """Every value of a data file is in the entry, under its name, the texts as they stand there."""
    file = tmp_path / "some_fault.toml"
    file.write_text(_FAULT)

    assert read_entry(file) == ZooEntry(
        slug="some_fault",
        title="A fault",
        kind="fault",
        requirement="KEY-01",
        consequences=("BOOT-07",),
        needs=("vllm",),
        origin="measured: somewhere",
        description="What was done.",
        changes=(Change("import contextlib\n", ""),),
    )


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("requirement", "", "requirement is missing"),
        ("requirement", 'requirement = "KEY"', "unknown requirement id 'KEY'"),
        ("requirement", 'requirement = "KEY-99"', "unknown requirement id 'KEY-99'"),
        ("requirement", 'requirement = ["KEY-01", "KEY-02"]', "requirement is missing"),
        ("consequences", 'consequences = "KEY-02"', "consequences is a list of ids"),
        ("consequences", 'consequences = ["KEY"]', "consequences is a list of ids"),
        ("consequences", 'consequences = ["KEY-01"]', "what fails besides the requirement"),
        ("needs", 'needs = ["luck"]', "needs is a list of capabilities"),
        ("title", "", "title is missing"),
        ("title", "title = ", "Invalid value"),
        ("origin", 'origin = ""', "origin is missing"),
        ("description", "description = 5", "description is missing"),
        ("origin", 'orgin = "measured: somewhere"', "unknown keys for faults: orgin"),
        ("[[change]]", "[change]", r"changes are written \[\[change\]\]"),
        (
            "[[change]]",
            "[[change]]\nwith = 1",
            r"\[\[change\]\] of the rewrite: with",
        ),
        ("replace", "", "replace is missing"),
        ("needs", 'base = "vllm"', "base is one of rewrite, reference, not 'vllm'"),
        ("needs", 'base = "reference"', "file is missing"),
        ("find", "why = '''", "unknown keys in a"),
    ],
)
def test_wrong_data_file_is_refused(tmp_path: Path, line: str, instead: str, message: str) -> None:
    """What a data file may not say is refused, with the name of the file."""
    file = tmp_path / "some_fault.toml"
    file.write_text(re.sub(rf"^{re.escape(line)}.*$", instead, _FAULT, flags=re.MULTILINE))

    with pytest.raises(EntryError, match=rf"^some_fault\.toml: .*{message}"):
        read_entry(file)


@pytest.mark.parametrize(
    ("kind", "message"),
    [("correct", "unknown keys for correct: consequences, origin"), ("fault", "at least one")],
)
def test_a_data_file_is_what_its_folder_says(tmp_path: Path, kind: Kind, message: str) -> None:
    """What is correct breaks no requirement, and a fault has something changed."""
    file = tmp_path / "some_fault.toml"
    file.write_text(_FAULT.partition("[[change]]")[0])

    with pytest.raises(EntryError, match=message):
        read_entry(file, kind)
