# SPDX-License-Identifier: Apache-2.0
"""The suite judged by subjects whose verdict is known: seeded faults, and a correct rewrite.

Here each fault meets the tests of the requirement that it names, which must fail, and the rewrite
meets the whole suite, which must not. That no fault is caught by anything else takes the whole
suite once a fault: `startup-plan zoo --run` does that, and `.ci/run` calls it.
"""

from __future__ import annotations

import linecache
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.run import GateRequest, run_gate
from startup_plan.harness.gate.suite import find_suite
from startup_plan.harness.verdict.judgement import Terms
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.zoo import catalogue
from startup_plan.harness.zoo.run import run_zoo

if TYPE_CHECKING:
    from pathlib import Path

    from startup_plan.harness.zoo.catalogue import ZooEntry

CATALOGUE: Final = catalogue.load_catalogue()
FAULTS: Final = [entry for entry in CATALOGUE if entry.kind == "fault"]
CORRECT: Final = {entry.slug: str(entry.file) for entry in CATALOGUE if entry.kind == "correct"}

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[entry.slug for entry in FAULTS])
each_that_can_show = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(entry, id=entry.slug, marks=[pytest.mark.needs(*entry.needs)])
        for entry in FAULTS
    ],
)

ONLY_ON_REAL_VLLM: Final = {"GROUP-01", "GROUP-02", "GROUP-03"}
"""Sentences of which a quick run judges nothing."""


@each_that_can_show
def test_fault_is_caught_by_the_requirement_it_names(fault: ZooEntry) -> None:
    """The tests of the requirement that a fault names fail on it, with a story."""
    (verdict,) = run_zoo([fault], only=lambda entry: [str(entry.requirement)])

    assert (verdict.outcome, verdict.elsewhere, verdict.trouble) == ("caught", (), "")
    assert verdict.story_of(fault.requirement)


@pytest.mark.parametrize("subject", ["reference", *CORRECT.values()], ids=["reference", *CORRECT])
def test_what_is_correct_raises_no_alarm(subject: str) -> None:
    """The whole suite holds on the reference, and on a plan that it was not written for."""
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
def test_fault_is_a_startup_plan_of_its_own(fault: ZooEntry) -> None:
    """A fault loads as a subject with all of its functions, and says where it comes from."""
    subject = load_subject(str(fault.file))

    assert subject.missing == ()
    assert fault.origin.startswith(("R", "measured: "))


def test_no_two_faults_are_the_same() -> None:
    """Titles and changes are all different: none of the faults is there twice."""
    titles = Counter(entry.title for entry in CATALOGUE)
    bodies = Counter(entry.file.read_text("utf-8").partition("seed(")[2] for entry in FAULTS)

    assert (titles.most_common(1)[0][1], bodies.most_common(1)[0][1]) == (1, 1)


@pytest.mark.parametrize(
    ("find", "message"),
    [
        ("no such text in the rewrite", "occurs 0 times in rewrite.py, not once"),
        ("return", "times in rewrite.py, not once"),
    ],
)
def test_fault_whose_place_is_gone_is_refused(find: str, message: str) -> None:
    """A fault whose place in the rewrite has changed is an error, not another fault or none."""
    with pytest.raises(ValueError, match=message):
        catalogue.seed({"__name__": "seeded"}, (find, "pass"))


def test_seeded_fault_shows_its_source() -> None:
    """A traceback through a seeded fault shows the lines that ran, with what was changed."""
    space = {"__name__": "seeded"}
    with pytest.raises(ZeroDivisionError) as caught:
        catalogue.seed(space, ("import contextlib\n", "import contextlib\nREST = 1 // 0\n"))
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]

    assert (frame.line, linecache.getline(frame.filename, 1)) == (
        "REST = 1 // 0",
        "# SPDX-License-Identifier: Apache-2.0\n",
    )


_FAULT: Final = {
    "title": "A fault",
    "kind": "fault",
    "requirement": "KEY-01",
    "origin": "measured: somewhere",
    "description": "What was done.",
}


def write_entry(folder: Path, **values: object) -> None:
    """Write the two files of a fault, some of whose data is changed, or left out if None."""
    data = {name: value for name, value in (_FAULT | values).items() if value is not None}
    (folder / "some_fault.py").write_text("")
    (folder / "some_fault.toml").write_text(
        "".join(f"{name} = {_toml(value)}\n" for name, value in data.items())
    )


def _toml(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def test_catalogue_reads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of a data file is in the entry, under its name."""
    monkeypatch.setattr(catalogue, "_FOLDER", tmp_path)
    write_entry(tmp_path, consequences=("BOOT-07",))
    (entry,) = catalogue.load_catalogue()

    assert {name: getattr(entry, name) for name in _FAULT} == _FAULT
    assert (entry.slug, entry.file, entry.consequences) == (
        "some_fault",
        tmp_path / "some_fault.py",
        ("BOOT-07",),
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "defect"}, 'kind is "fault" or "correct"'),
        ({"requirement": None}, "a fault names one requirement"),
        ({"requirement": "KEY"}, "a fault names one requirement"),
        ({"requirement": ("KEY-01", "KEY-02")}, "a fault names one requirement"),
        ({"consequences": "KEY-02"}, "consequences is a list of ids"),
        ({"consequences": ("KEY",)}, "consequences is a list of ids"),
        ({"consequences": ("KEY-01",)}, "what fails besides the requirement"),
        ({"kind": "correct"}, "what is correct breaks no requirement"),
        ({"title": None}, "title is missing or empty"),
        ({"origin": ""}, "origin is missing or empty"),
        ({"description": 5}, "description is missing or empty"),
        ({"orgin": "measured: somewhere"}, "unknown keys: orgin"),
    ],
)
def test_wrong_data_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, object], message: str
) -> None:
    """What a data file may not say is refused, with the name of the file."""
    monkeypatch.setattr(catalogue, "_FOLDER", tmp_path)
    write_entry(tmp_path, **values)

    with pytest.raises(ValueError, match=message) as caught:
        catalogue.load_catalogue()
    assert "some_fault.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("present", "missing"), [("some_fault.py", "toml"), ("some_fault.toml", "py")]
)
def test_half_an_entry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str, missing: str
) -> None:
    """A module without data, or data without a module, would be a fault that nobody tries."""
    monkeypatch.setattr(catalogue, "_FOLDER", tmp_path)
    write_entry(tmp_path)
    (tmp_path / f"some_fault.{missing}").unlink()

    with pytest.raises(ValueError, match=rf"some_fault\.{missing}") as caught:
        catalogue.load_catalogue()
    assert present in str(caught.value)


def test_broken_data_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data file that is no TOML is named."""
    monkeypatch.setattr(catalogue, "_FOLDER", tmp_path)
    (tmp_path / "some_fault.toml").write_text("title = \n")

    with pytest.raises(ValueError, match=r"some_fault\.toml: "):
        catalogue.load_catalogue()
