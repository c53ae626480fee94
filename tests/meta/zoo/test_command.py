# SPDX-License-Identifier: Apache-2.0
"""`startup-plan zoo`: what it lists, how it judges, and how it ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.forms import check_form

from startup_plan.cli import main as cli
from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.capabilities import Capability
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.zoo import catalogue
from startup_plan.harness.zoo import run as zoo_run
from startup_plan.harness.zoo.catalogue import Change, ZooEntry, load_catalogue
from startup_plan.harness.zoo.run import (
    Verdict,
    ZooInterruptedError,
    ids_in_need,
    ids_near,
    judge,
    run_zoo,
)
from startup_plan.harness.zoo.seed import source_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_SLUG: Final = "utilization_left_out"


FAULT: Final = ZooEntry(
    slug="some_entry",
    title="An entry",
    kind="fault",
    requirement="KEY-02",
    consequences=("BOOT-07",),
    origin="measured: here",
    description="What was done.",
)
CORRECT: Final = replace(FAULT, kind="correct", requirement=None, consequences=())


def report(**statuses: str) -> dict[str, Any]:
    """A gate's report; ids are written with an underscore."""
    return {
        "requirements": [
            {"id": id_.replace("_", "-"), "status": status, "counterexample": f"{id_} {status}"}
            for id_, status in statuses.items()
        ],
        "summary": {"seen_and_not_asked_for": {}},
    }


@pytest.mark.parametrize(
    ("statuses", "outcome", "elsewhere", "trouble"),
    [
        ({"KEY_02": "violated", "LOG_01": "holds"}, "caught", (), ""),
        ({"KEY_02": "violated", "BOOT_07": "violated"}, "caught", (), ""),
        ({"KEY_02": "violated", "LOG_01": "violated"}, "caught elsewhere", ("LOG-01",), ""),
        ({"KEY_02": "holds", "LOG_01": "violated"}, "NOT CAUGHT", ("LOG-01",), ""),
        ({"KEY_02": "holds", "BOOT_07": "violated"}, "NOT CAUGHT", (), ""),
        ({"KEY_02": "holds"}, "NOT CAUGHT", (), ""),
        (
            {"KEY_02": "not-run", "LOG_01": "holds"},
            "NOT CAUGHT",
            (),
            "KEY-02 was not judged: KEY_02 not-run",
        ),
    ],
)
def test_fault_is_caught_only_by_what_it_names(
    statuses: dict[str, str], outcome: str, elsewhere: tuple[str, ...], trouble: str
) -> None:
    """Only the named requirement proves that a fault is caught; others besides are told apart."""
    verdict = judge(FAULT, report(**statuses))

    assert (verdict.outcome, verdict.elsewhere, verdict.trouble) == (outcome, elsewhere, trouble)
    assert verdict.good == (outcome == "caught")


def test_a_fault_is_caught_elsewhere_also_by_what_was_not_asked_for() -> None:
    """A judgement that is limited to some requirements still tells what else a fault breaks."""
    found = report(KEY_02="violated", LOG_01="not-run")
    found["summary"]["seen_and_not_asked_for"]["LOG-01"] = "no line was logged"
    verdict = judge(FAULT, found)

    assert (verdict.outcome, dict(verdict.violated)) == (
        "caught elsewhere",
        {"KEY-02": "KEY_02 violated", "LOG-01": "no line was logged"},
    )


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ({"KEY_02": "holds", "LOG_01": "not-run"}, "holds"),
        ({"KEY_02": "holds", "LOG_01": "violated"}, "FALSE ALARM"),
        ({"KEY_02": "not-run", "LOG_01": "not-run"}, "FALSE ALARM"),
    ],
)
def test_correct_subject_must_hold(statuses: dict[str, str], outcome: str) -> None:
    """What is correct breaks nothing, and a run that judged nothing does not show that."""
    assert judge(CORRECT, report(**statuses)).outcome == outcome


def test_near_is_the_family_with_boot_and_the_consequences() -> None:
    """`--near` judges a fault where it can show, and what is correct by everything."""
    near = ids_near(replace(FAULT, consequences=("GATE-08",)))

    assert {id_.partition("-")[0] for id_ in near} == {"KEY", "BOOT", "GATE"}
    assert [id_ for id_ in near if id_.startswith("GATE")] == ["GATE-08"]
    assert ids_near(CORRECT) == ()


def test_gate_that_fails_proves_nothing() -> None:
    """A subject that does not load is not caught, whatever status the gate ends with."""
    broken = Change("import enum\n", "raise ValueError('broken on purpose')\n")
    (verdict,) = run_zoo([replace(FAULT, changes=(broken,))])

    assert (verdict.outcome, verdict.violated) == ("NOT CAUGHT", {})
    assert "the gate ended with status 3" in verdict.trouble
    assert "broken on purpose" in verdict.trouble


@pytest.mark.parametrize(
    ("required", "outcome", "good"), [((), "not judged", True), (("browser",), "NOT CAUGHT", False)]
)
def test_a_fault_that_needs_what_is_absent(
    monkeypatch: pytest.MonkeyPatch, required: tuple[str, ...], outcome: str, good: bool
) -> None:
    """Where a capability is absent the faults that need it are passed over, or fail if required."""
    absent = Capability("browser", present=False, reason="no browser here")
    monkeypatch.setattr(capabilities, "probe", lambda _name: absent)
    (verdict,) = run_zoo([replace(FAULT, needs=("browser",))], required=required)

    assert (verdict.outcome, verdict.good) == (outcome, good)
    assert verdict.trouble == "capability browser: no browser here"


def test_a_fault_that_needs_something_is_judged_by_its_family() -> None:
    """What takes long is judged by the family of the requirement and its consequences alone."""
    families = {id_.partition("-")[0] for id_ in ids_in_need(FAULT)}

    assert (families, "BOOT-07" in ids_in_need(FAULT)) == ({"KEY", "BOOT"}, True)


@pytest.mark.parametrize("option", ["--require", "--needs"])
def test_an_unknown_capability_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--require` and `--needs` name a known capability, or the command says which there are."""
    assert cli.run(["zoo", "--run", option, "luck", _SLUG]) == 2
    assert "unknown capability 'luck'" in capsys.readouterr().err


def test_subjects_are_chosen_by_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    """`--needs` keeps the subjects that need a capability, and with `nothing` all the others."""
    listed = []
    for needs in ("root", "nothing"):
        assert cli.run(["zoo", "--needs", needs]) == 0
        listed.append(capsys.readouterr().out)

    assert ["other_owner_distrusted" in text for text in listed] == [True, False]
    assert ["utilization_left_out" in text for text in listed] == [False, True]


def test_list_names_every_subject(capsys: pytest.CaptureFixture[str]) -> None:
    """Without options the command lists every subject with the requirement that it breaks."""
    status = cli.run(["zoo"])
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("│ ").split("│")] for line in lines]

    assert status == 0
    assert sorted(row for row in rows if len(row) == 3) == sorted(
        [found.slug, found.requirement or "nothing", found.title]
        for found in load_catalogue().values()
    )


def test_slug_without_run_tells_all(capsys: pytest.CaptureFixture[str]) -> None:
    """A slug alone tells what was done, what it breaks, and where it comes from."""
    status = cli.run(["zoo", _SLUG])
    out = capsys.readouterr().out
    fault = load_catalogue()[_SLUG]

    assert status == 0
    assert all(
        text in out
        for text in (fault.title, "KEY-02", "BOOT-06, BOOT-07", fault.origin, fault.description)
    )
    assert "+++ utilization_left_out/rewrite.py" in out
    assert "+        gpu_memory_utilization" in out.splitlines()


def test_a_subject_is_written_as_a_module(tmp_path: Path) -> None:
    """`--write` gives the seeded module itself, which loads as a subject of that file."""
    file = tmp_path / "plan.py"
    status = cli.run(["zoo", _SLUG, "--write", str(file)])

    assert (status, load_subject(str(file)).missing) == (0, ())
    assert file.read_text() == source_of(load_catalogue()[_SLUG])


def test_list_as_json(tmp_path: Path) -> None:
    """`--json` writes everything that is known of each subject."""
    file = tmp_path / "zoo.json"
    status = cli.run(["zoo", "--json", str(file)])
    listed = json.loads(file.read_text())
    check_form(listed, "startup-plan/zoo/1")
    written = {found["slug"]: found for found in listed["entries"]}

    assert (status, len(written)) == (0, len(load_catalogue()))
    assert written[_SLUG]["requirement"] == "KEY-02"
    assert written[_SLUG]["consequences"] == ["BOOT-06", "BOOT-07"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["utilisation_left_out"], f"the nearest are {_SLUG}"),
        (["zzz"], "`startup-plan zoo` lists all"),
        (["--json", "/dev/null/zoo.json"], "zoo.json"),
        (["--write", "plan.py"], "--write takes one SLUG"),
        (["--run", _SLUG, "--write", "plan.py"], "--write takes one SLUG"),
        (["--needs", "vllm", _SLUG, "--write", "plan.py"], "--write takes one SLUG"),
        ([_SLUG, "--write", "/dev/null/plan.py"], "plan.py"),
        (["--run", "-n", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage_is_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """An unknown slug, or a report that cannot be written, is refused before anything runs."""
    status = cli.run(["zoo", *arguments])
    captured = capsys.readouterr()

    assert (status, captured.out) == (2, "")
    assert words in captured.err


def test_a_data_file_that_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the zoo itself cannot be read, the command says in which file and why."""
    monkeypatch.setattr(catalogue, "_HOME", tmp_path)
    for folder in ("correct", "faults"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some_plan.toml").write_text('title = "T"\ndescription = "D"\n')

    assert cli.run(["zoo"]) == 2
    assert "some_plan.toml: both a fault and correct" in capsys.readouterr().err


def run_with(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Sequence[str]], *, interrupted: bool = False
) -> None:
    """Let the command hear made-up verdicts: slug to violated requirements."""

    def run(entries: Sequence[ZooEntry], **_options: object) -> Iterator[Verdict]:
        for known in entries:
            violated = found.get(known.slug, [known.requirement] if known.requirement else [])
            stories = {broken: f"story of {broken}\nin two lines" for broken in violated}
            yield Verdict(known, stories, "", 1.0)
        if interrupted:
            raise ZooInterruptedError(signal.SIGINT)

    monkeypatch.setattr(zoo_run, "run_zoo", run)


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        ({}, 0, "1 of 1 faults caught exactly by what they name"),
        ({_SLUG: ["KEY-02", "BOOT-07"]}, 0, "with its consequences BOOT-07"),
        ({_SLUG: []}, 1, "NOT CAUGHT        KEY-02   utilization_left_out"),
        ({_SLUG: ["LOG-01"]}, 1, "instead LOG-01"),
        (
            {_SLUG: ["KEY-02", "LOG-01"]},
            1,
            "also LOG-01\n    LOG-01: story of LOG-01\n        in two",
        ),
        ({_SLUG: ["KEY-02", "LOG-01"]}, 1, "0 of 1 faults caught exactly"),
        ({"rewrite": ["LOG-01"]}, 1, "1 false alarms in 1 correct"),
        ({"rewrite": ["LOG-01"]}, 1, "    LOG-01: story of LOG-01"),
    ],
)
def test_verdicts_are_told_and_counted(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: dict[str, Sequence[str]],
    status: int,
    words: str,
) -> None:
    """The status is 0 only if every fault is caught exactly, and everything else is spelled out."""
    run_with(monkeypatch, found)

    assert cli.run(["zoo", "--run", _SLUG, "rewrite"]) == status
    assert words in capsys.readouterr().out


def test_interrupted_run_is_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was judged before Ctrl-C is told and written, and both say that it is not all."""
    run_with(monkeypatch, {}, interrupted=True)
    file = tmp_path / "zoo.json"
    status = cli.run(["zoo", "--run", _SLUG, "--json", str(file)])
    report = json.loads(file.read_text())
    check_form(report, "startup-plan/zoo/1")
    summary = report["summary"]

    assert (status, summary["partial"], summary["good"]) == (130, True, 1)
    assert "PARTIAL: 1 of 1 faults" in capsys.readouterr().out


_BLOCKING: Final = """
title = "Stuck"
requirement = "KEY-02"
origin = "R1"
description = "It waits for ever while it is imported."
[[change]]
find = '''
import torch
'''
replace = '''
import torch
with open({hello!r}, "w") as pipe:
    pipe.write(str(os.getpid()))
with open({never!r}) as pipe:
    pipe.read()
'''
"""
_DRIVER: Final = """
import pathlib, sys
from startup_plan.cli import main as cli
from startup_plan.harness.zoo import catalogue
catalogue._HOME = pathlib.Path(sys.argv.pop(1))
cli.main()
"""


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    """Ctrl-C ends the gate that is running, and the process in which it loads its subject."""
    hello, never = tmp_path / "hello", tmp_path / "never"
    os.mkfifo(hello)
    os.mkfifo(never)
    folder = tmp_path / "zoo"
    (folder / "faults").mkdir(parents=True)
    (folder / "faults" / "stuck.toml").write_text(
        _BLOCKING.format(hello=str(hello), never=str(never))
    )
    command = [sys.executable, "-c", _DRIVER, str(folder), "zoo", "--run"]
    listener = os.open(hello, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        ended = os.pidfd_open(process.pid)
        try:
            assert select.select([listener, ended], [], [], 60)[0] == [listener]
            blocked = int(os.read(listener, 32))
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(listener)
            os.close(ended)

    assert (process.returncode, out.strip().partition(" (")[0]) == (130, "PARTIAL: 1 not tried")
    with pytest.raises(ProcessLookupError):
        os.kill(blocked, 0)
