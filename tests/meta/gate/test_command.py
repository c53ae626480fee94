# SPDX-License-Identifier: Apache-2.0
"""`startup-plan gate` and plain pytest: options, files, sentences and exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.forms import check_form

from startup_plan.cli import gate as cli_gate
from startup_plan.cli import main as cli
from startup_plan.harness.gate.run import GateError, GateOutcome

if TYPE_CHECKING:
    from pathlib import Path

    from tests.meta.conftest import MiniSuite

SOUND = """
@requirement("KEY-01")
def test_sound(tally):
    tally(boots=2)
    tally(boots=1, byte_variants=4)
"""

BROKEN = """
@requirement("KEY-02", "KEY-03")
def test_broken():
    raise Violation("KEY-02", "boot at 0.8 saved\\nboot at 0.3 applied it")
"""

MUST_NOT_RUN = "raise RuntimeError('the suite was run')"


def test_subject_that_cannot_be_loaded_is_status_3(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A subject that is not there ends with a sentence that names it, and status 3."""
    mini_suite(SOUND)

    status = cli.run(["gate", str(tmp_path / "missing.py")])
    error = capsys.readouterr().err

    assert (status, "missing.py cannot be read" in error, "Traceback" in error) == (3, True, False)


def test_subject_that_ends_the_process_is_status_3(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A subject that takes the process down at import could not be loaded, and that is said."""
    mini_suite(SOUND)
    path = tmp_path / "plan.py"
    path.write_text("import os; os._exit(0)")

    status = cli.run(["gate", str(path)])

    assert (status, "imported it ended by itself with status 0" in capsys.readouterr().err) == (
        3,
        True,
    )


def test_subject_is_loaded_before_any_worker(mini_suite: MiniSuite, tmp_path: Path) -> None:
    """A subject that raises at import is reported once, however many workers there are."""
    mini_suite(SOUND)
    path = tmp_path / "plan.py"
    path.write_text("raise RuntimeError('not today')")

    assert cli.run(["gate", str(path), "-n", "2"]) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "KEY-2"], "unknown requirement id 'KEY-2': the nearest are"),
        (["--only", ","], "--only names nothing"),
        (["--require", "ptrace,magic"], "unknown capability 'magic': the known ones are torch"),
        (["--quick", "--profile", "ci"], "leave out --quick or --profile"),
        (["--profile", "hard"], "'hard' is not one of"),
        (["--state", "crash[k=3]"], "'crash[k=3]' spells no crash state"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--against", "missing.json"], "--against: missing.json cannot be read"),
        (["--against", "text"], "--against: text is not JSON"),
        (["--against", "zoo.json"], "--against: zoo.json has the form 'startup-plan/zoo/1'"),
        (["--against", "list.json"], "--against: list.json is no report"),
        (["--against", "./"], "--against: ./ is a folder"),
        (
            ["--against", "vllm-0.1.0"],
            "no report on vllm-0.1.0 comes with this startup-plan (there",
        ),
        (["--known-gaps", "vllm-0.1.0"], "there is one on vllm-0.26.0, vllm-0.27.1, "),
        (["--write-known-gaps", "text"], "text is there and is no known-gaps file"),
        (["--write-known-gaps", "gaps", "--fail-fast"], "leave out --write-known-gaps"),
        (["--write-known-gaps", "r", "--json", "r"], "two reports cannot share one file"),
        (["-n", "many"], "'many' is not a valid integer"),
        (["--json", "/"], "cannot write the report /"),
        (["--json", "missing/r.json"], "cannot write the report missing/r.json"),
        (["--json", "r", "--html", "./r"], "two reports cannot share one file"),
        (["reference", "another"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_status_2_before_the_run(
    mini_suite: MiniSuite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    """Wrong usage is a sentence with the remedy, and status 2, and nothing runs."""
    mini_suite(MUST_NOT_RUN)
    monkeypatch.chdir(tmp_path)
    for name, text in (("text", "a {"), ("zoo.json", '{"schema": "startup-plan/zoo/1"}')):
        (tmp_path / name).write_text(text)
    (tmp_path / "list.json").write_text("[]")

    status = cli.run(["gate", *arguments])

    assert (status, sentence in capsys.readouterr().err) == (2, True)


def test_refused_report_leaves_the_old_one(mini_suite: MiniSuite, tmp_path: Path) -> None:
    """A report that can be written is not touched when another one cannot."""
    mini_suite(MUST_NOT_RUN)
    old = tmp_path / "old.json"
    old.write_text("old")

    status = cli.run(["gate", "--json", str(old), "--html", str(tmp_path / "missing" / "r")])

    assert (status, old.read_text()) == (2, "old")


def test_command_line_writes_all_reports(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run gives the matrix on the terminal and the same judgement in every file."""
    mini_suite(SOUND + BROKEN)
    paths = [tmp_path / name for name in ("r.json", "r.xml", "r.html")]
    options = [f"--{n}={p}" for n, p in zip(("json", "junit", "html"), paths, strict=True)]

    status = cli.run(["gate", "--quick", "-n", "0", *options])
    printed = capsys.readouterr()
    report = json.loads(paths[0].read_text())
    check_form(report, "startup-plan/gate/2")
    verdict = report["summary"]["verdict"]

    assert (status, report["suite"]["profile"]) == (1, "quick")
    assert printed.out.splitlines()[-1] == verdict
    assert all(verdict in path.read_text() for path in paths)
    assert "counterexample for KEY-02" in printed.err


def test_nightly_run_names_its_seed(mini_suite: MiniSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random run draws a seed, so that its report says how to do it again."""
    mini_suite(SOUND)
    seen: list[int | None] = []

    def note(request: Any, _progress: Any) -> GateOutcome:
        seen.append(request.seed)
        raise GateError("enough")

    monkeypatch.setattr(cli_gate, "run_gate", note)
    for options in (["--profile=nightly"], ["--profile=nightly", "--seed=5"], []):
        cli.run(["gate", *options])

    assert (isinstance(seen[0], int), seen[1:]) == (True, [5, None])


def test_plain_pytest_gives_the_same_answers(mini_suite: MiniSuite) -> None:
    """`pytest --subject` ends with the verdict that the gate gives, and fails when it fails."""
    suite = mini_suite(SOUND + BROKEN + "\ndef test_unmarked():\n    pass\n")
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
        *("-p", "startup_plan.harness.session.plugin", "--subject", "reference", str(suite)),
    ]
    environment = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert (
        "reference BREAKS 1 of the 2 requirements that ran, 1 of them unsafe (KEY-02)"
        in done.stdout
    )
    assert ("subject file: " in done.stdout, "capabilities: torch" in done.stdout) == (True, True)


@pytest.mark.parametrize(
    ("option", "status", "sentence"),
    [
        ("--subject=no.such.module", 3, "no.such.module"),
        ("--require=magic", 4, "unknown capability 'magic'"),
        ("--gate-only=KEY-2", 4, "the nearest are"),
        ("--known-gaps=missing", 4, "cannot be read"),
    ],
)
def test_plain_pytest_refuses_with_a_sentence(
    mini_suite: MiniSuite, option: str, status: int, sentence: str
) -> None:
    """In plain pytest, too, bad input is a sentence and no traceback."""
    suite = mini_suite(MUST_NOT_RUN)
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", option),
        *("-p", "startup_plan.harness.session.plugin", str(suite)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr

    assert (done.returncode, sentence in printed, "Traceback" in printed) == (status, True, False)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["gate", "--help"], ["gate", "--only", "KEY-2"]]
)
def test_command_line_answers_at_once(arguments: list[str]) -> None:
    """Help and complaints do not wait for the libraries that only a run needs."""
    program = (
        "import sys; from startup_plan.cli import main as cli; cli.run(sys.argv[1:]); "
        "sys.exit(bool({'hypothesis', 'pytest', 'rich', 'torch'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, "startup-plan" in done.stdout + done.stderr) == (0, True)


def test_help_documents_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    """`gate --help` says what every exit status means."""
    status = cli.run(["gate", "--help"])
    text = " ".join(capsys.readouterr().out.split())

    assert status == 0
    for words_of_status in ("Exit status: 0 every", "1 at least", "2 wrong", "3 the subject"):
        assert words_of_status in text


def test_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A command that does not exist is status 2."""
    assert (cli.run(["gates"]), "No such command" in capsys.readouterr().err) == (2, True)
