# SPDX-License-Identifier: Apache-2.0
"""Subjects that behave until they are judged: nothing broken passes, nothing else is blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.cli import main as cli
from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.run import GateError, GateRequest, run_gate
from startup_plan.harness.gate.suite import find_suite
from startup_plan.harness.verdict.judgement import Terms
from startup_plan.harness.zoo.catalogue import load_catalogue
from startup_plan.harness.zoo.seed import source_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.verdict.judgement import Report

SUITE: Final = """
from startup_plan.harness.world.engine import UTILIZATION, Engine

def engine(utilization):
    made = Engine()
    made.set(UTILIZATION, utilization)
    return made

@requirement("KEY-15")
def test_a_plan_has_the_name_that_was_agreed(world):
    world.boot(engine(0.8))
    assert [len(name) for name in world.files()] == [len("startup_plan_.json") + 16]

@requirement("KEY-02")
def test_b_another_budget_has_another_plan(world):
    world.boot(engine(0.8))
    second = world.boot(engine(0.9))
    if second.applied is not None:
        raise Violation("KEY-02", "a plan of another budget was applied")

@requirement("BOOT-01")
def test_c_what_was_saved_is_applied(world):
    world.boot(engine(0.8))
    assert world.boot(engine(0.8)).applied is not None
"""
"""A sentence that holds, one that is broken, one that holds again."""

LATER: Final = """
import os as _os
_look_up, _save = maybe_apply_startup_plan, maybe_save_startup_plan
def _act(worker):
    {code}
def maybe_apply_startup_plan(worker):
    _look_up(worker)
    if {at!r} == "look-up" and _due():
        _act(worker)
def maybe_save_startup_plan(worker, kv_cache_memory_bytes):
    _save(worker, kv_cache_memory_bytes)
    if {at!r} == "save" and _due():
        _act(worker)
def _due():
    calls = _os.open({calls!r}, _os.O_WRONLY | _os.O_CREAT | _os.O_APPEND)
    try:
        _os.write(calls, b".")
        return _os.fstat(calls).st_size > {spared}
    finally:
        _os.close(calls)
"""
"""Misbehaves at each call after the first few, which is when it is tried out."""

SPARED: Final = {"look-up": 6, "save": 4}
"""How often each is called while the subject is tried out."""

ENDS: Final = {
    "exits": "import os; os._exit(0)",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "forgets its signals and hangs": (
        "import signal, ctypes\n    signal.signal(signal.SIGALRM, signal.SIG_DFL)\n"
        "    signal.raise_signal(signal.SIGALRM)"
    ),
}
"""The process of the test is gone."""

CHANGES: Final = {
    "replaces os.replace": "import os; os.replace = lambda *_, **__: None",
    "replaces json": "import json; json.dumps = lambda *_, **__: '{}'",
    "replaces pytest": "import _pytest.runner as r; r.check_interactive_exception = lambda *_: 0",
    "replaces the judge": (
        "from startup_plan.harness.contract import violation; violation.Violation = ValueError"
    ),
    "replaces hypothesis": "import hypothesis; hypothesis.settings = dict",
}
"""What the process relies on is no longer what it was."""

NOISE: Final = {
    "closes its streams": "import sys; sys.stdout.close(); sys.stderr.close()",
    "closes descriptors": "import os; os.closerange(1, 3)",
    "floods": "import os; [os.write(1, b'x' * 2**20) for _ in range(200)]",
    "forks and goes on": "import os; os.fork()",
    "leaves a child": (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(600)'], start_new_session=True)"
    ),
    "leaves a thread": (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=False).start()"
    ),
    "leaves an exit hook": "import atexit, os; atexit.register(os._exit, 0)",
    "changes settings": (
        "import os, gc, sys; os.chdir('/'); os.umask(0o777); gc.disable(); "
        "sys.setrecursionlimit(150); os.environ['HOME'] = '/nowhere'"
    ),
}
"""Nothing that a judge cannot put right."""


def _subject(folder: Path, code: str, at: str) -> str:
    file, calls = folder / "evil.py", str(folder / "calls")
    broken = source_of(load_catalogue()["utilization_left_out"])
    file.write_text(
        broken + LATER.format(code=code, at=at, calls=calls, spared=SPARED[at]), "utf-8"
    )
    return str(file)


def _verdicts(report: Report) -> dict[str, str]:
    judged = ("KEY-15", "KEY-02", "BOOT-01")
    return {r.requirement.id: r.status for r in report.results if r.requirement.id in judged}


@pytest.mark.parametrize("at", SPARED)
@pytest.mark.parametrize("way", ENDS)
def test_a_test_whose_process_is_gone_decides_nothing(
    gate_request: Any, tmp_path: Path, way: str, at: str
) -> None:
    """A subject that ends the process is never passed, whatever status it ends with."""
    subject = _subject(tmp_path, ENDS[way], at)
    outcome = run_gate(gate_request(SUITE, subject=subject, workers=1))

    assert (outcome.status, set(_verdicts(outcome.report).values())) == (4, {"not-run"})
    assert "cannot be judged" in outcome.report.verdict


def test_without_workers_a_run_that_ends_is_no_judgement(gate_request: Any, tmp_path: Path) -> None:
    """Where the tests share a process, its end is the end of the run, and an error."""
    subject = _subject(tmp_path, ENDS["exits"], "look-up")
    with pytest.raises(GateError, match="3 of 3 tests had not finished") as caught:
        run_gate(gate_request(SUITE, subject=subject))

    assert caught.value.status == 4


@pytest.mark.parametrize("at", SPARED)
@pytest.mark.parametrize("way", CHANGES)
def test_what_was_found_beside_a_replaced_function_decides_nothing(
    gate_request: Any, tmp_path: Path, way: str, at: str
) -> None:
    """Each test that the subject tampered with is undecided, with what it replaced."""
    subject = _subject(tmp_path, CHANGES[way], at)
    outcome = run_gate(gate_request(SUITE, subject=subject))
    told = {r.requirement.id: r.counterexample or "" for r in outcome.report.results}

    assert (outcome.status, set(_verdicts(outcome.report).values())) == (4, {"not-run"})
    assert "the subject replaces" in told["KEY-02"]


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("import vllm.utils; vllm.utils.no_such_helper()", "vllm.utils for 'no_such_helper'"),
        ("worker.model_config.get_vocab_size()", "vLLM's ModelConfig for 'get_vocab_size'"),
    ],
    ids=["a name", "an attribute"],
)
def test_what_asks_beyond_the_simulation_later_decides_nothing(
    gate_request: Any, tmp_path: Path, code: str, asked: str
) -> None:
    """Where the stubs have no answer, that is the reason given, and no violation."""
    subject = _subject(tmp_path, code, "look-up")
    outcome = run_gate(gate_request(SUITE, subject=subject))
    told = {r.requirement.id: r.counterexample or "" for r in outcome.report.results}

    assert (outcome.status, _verdicts(outcome.report)["BOOT-01"]) == (4, "not-run")
    assert f"it asks {asked}" in told["BOOT-01"]


@pytest.mark.parametrize("at", SPARED)
@pytest.mark.parametrize("way", NOISE)
def test_what_can_be_put_right_changes_no_verdict(
    gate_request: Any, tmp_path: Path, children: Callable[[], set[str]], way: str, at: str
) -> None:
    """Noise, settings and what is left behind neither hide a violation nor make one."""
    before = children()
    subject = _subject(tmp_path, NOISE[way], at)
    outcome = run_gate(gate_request(SUITE, subject=subject, workers=1))

    assert (outcome.status, _verdicts(outcome.report)) == (
        1,
        {"KEY-15": "holds", "KEY-02": "violated", "BOOT-01": "holds"},
    )
    assert children() == before


def test_a_folder_of_the_subjects_name_is_not_the_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dotted name is a module also where a folder of that name lies in the working directory."""
    (tmp_path / "no_such.module").mkdir()
    monkeypatch.chdir(tmp_path)

    assert cli.run(["gate", "no_such.module"]) == 3
    assert "No module named 'no_such.module'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["gate"],
        ["gate", "--state", "crash[overwrite,k=3,dir=1,data=-,ordered]"],
        ["census", "--require", "vllm", "--subject"],
    ],
    ids=["gate", "state", "census"],
)
@pytest.mark.parametrize("code", ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"])
def test_every_command_refuses_a_subject_that_ends_its_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str
) -> None:
    """Status 3 and a sentence, for every command that takes a subject."""
    file = tmp_path / "evil.py"
    file.write_text(code)
    status = cli.run([*arguments, str(file)])
    said = capsys.readouterr().err

    assert (status, "the process that imported it" in said, "Traceback" in said) == (3, True, False)


CHATTY: Final = """
import functools as _functools
def _chatty(function):
    @_functools.wraps(function)
    def call(*arguments):
        for number in range(2000):
            logger.debug("line %d %s", number, "x" * 80)
        print("y" * 40_000)
        return function(*arguments)
    return call
maybe_apply_startup_plan = _chatty(maybe_apply_startup_plan)
maybe_save_startup_plan = _chatty(maybe_save_startup_plan)
"""
"""200 KB a call."""


def test_a_chatty_subject_is_judged_like_any_other(tmp_path: Path) -> None:
    """What a subject logs and prints by the way hides nothing and takes none of its tests' time."""
    path = tmp_path / "chatty.py"
    path.write_text(source_of(load_catalogue()["rewrite"]) + CHATTY)
    terms = Terms(load_register(), only=("SAVE-10", "LOG-01", "LOG-02"))
    report = run_gate(GateRequest(str(path), terms, find_suite(), profile="quick")).report

    assert {
        r.requirement.id: r.counterexample for r in report.results if r.status != "not-run"
    } == {
        "SAVE-10": None,
        "LOG-01": None,
        "LOG-02": None,
    }
