# SPDX-License-Identifier: Apache-2.0
"""`startup-plan gate`: what it judges, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from startup_plan import cli, cli_gate
from startup_plan.harness.gate_run import GateError, GateOutcome, find_suite, run_gate

if TYPE_CHECKING:
    from startup_plan.harness.report import Report
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
    raise Violation("KEY-02", "boot at 0.8 saved\\\\nboot at 0.3 applied it")
"""

MUST_NOT_RUN = "raise RuntimeError('the suite was run')"


def statuses(report: Report, *ids: str) -> list[str]:
    """Give the statuses of some requirements."""
    by_id = {result.requirement.id: result.status for result in report.results}
    return [by_id[requirement_id] for requirement_id in ids]


def words(report: Report, requirement_id: str) -> str:
    """Give the counterexample or reason of a requirement."""
    (result,) = [r for r in report.results if r.requirement.id == requirement_id]
    return result.counterexample or ""


def test_sound_subject_passes(gate_request: Any) -> None:
    """When all that ran holds the status is 0, and what the tests counted is added up."""
    outcome = run_gate(gate_request(SOUND))

    assert (outcome.status, statuses(outcome.report, "KEY-01"), outcome.report.counters) == (
        0,
        ["holds"],
        {"boots": 3, "examples": 0, "byte_variants": 4},
    )


def test_report_proves_what_was_judged(gate_request: Any) -> None:
    """The report names the file that was loaded, its digest, and the machine."""
    report = run_gate(gate_request(SOUND)).report

    assert (report.subject.name, Path(report.subject.file).is_file()) == ("reference", True)
    assert (len(report.subject.sha256), "python" in report.environment) == (64, True)


@pytest.mark.parametrize("workers", [0, 2])
def test_violation_is_tied_to_its_requirement(gate_request: Any, workers: int) -> None:
    """A told violation breaks the id that it names, with its story, with and without workers."""
    outcome = run_gate(gate_request(BROKEN + SOUND, workers=workers))

    assert (
        outcome.status,
        statuses(outcome.report, "KEY-01", "KEY-02", "KEY-03"),
        words(outcome.report, "KEY-02"),
    ) == (1, ["holds", "violated", "not-run"], "boot at 0.8 saved\nboot at 0.3 applied it")


FAILURES = """
from hypothesis import given, strategies as st

@requirement("KEY-01", "KEY-02")
def test_raises():
    raise ValueError("a plan \\\\x00 of steel")

@requirement("KEY-03")
@given(st.integers())
def test_finds(number):
    if number > 999:
        raise Violation(None, f"boot {number} applied it")

@pytest.fixture
def broken():
    raise OSError("no disk")

@requirement("KEY-04")
def test_setup(broken):
    pass

@requirement("KEY-05")
def test_group():
    raise ExceptionGroup("two", [ValueError("x"), Violation("KEY-06", "told in a group")])

@requirement("KEY-07", "KEY-99")
def test_unknown():
    pass

@requirement("KEY-08")
def test_equal():
    assert 1 + 1 == 3
"""


def test_failures_of_every_kind_are_tied(gate_request: Any) -> None:
    """An exception breaks all ids of its test; a violation, also from a group, the one it names."""
    report = run_gate(gate_request(FAILURES)).report
    found = {r.requirement.id: r.counterexample for r in report.having("violated")}

    assert found == {
        "KEY-01": "raised ValueError: a plan \\x00 of steel",
        "KEY-02": "raised ValueError: a plan \\x00 of steel",
        "KEY-03": "boot 1000 applied it",
        "KEY-04": "raised OSError: no disk",
        "KEY-06": "told in a group",
        "KEY-07": "unknown requirement id 'KEY-99': the nearest are KEY-09, KEY-17, KEY-16",
        "KEY-08": "assert (1 + 1) == 3",
    }


def test_killed_worker_is_a_finding(gate_request: Any) -> None:
    """A subject that takes its process down breaks the requirement that was being judged."""
    source = '@requirement("KEY-01")\ndef test_dies():\n    import os\n    os._exit(9)\n'
    outcome = run_gate(gate_request(source + SOUND.replace("KEY-01", "KEY-02"), workers=1))

    assert (
        outcome.status,
        statuses(outcome.report, "KEY-01", "KEY-02"),
        "process that ran the test died" in words(outcome.report, "KEY-01"),
    ) == (1, ["violated", "holds"], True)


def test_killed_run_is_no_judgement(gate_request: Any) -> None:
    """Without workers a subject that ends the process ends the run, and that is said."""
    source = '@requirement("KEY-01")\ndef test_dies():\n    import os\n    os.abort()\n'

    with pytest.raises(GateError, match="killed by signal 6") as caught:
        run_gate(gate_request(source))

    assert caught.value.status == 4


def test_suite_that_cannot_be_collected_is_no_judgement(gate_request: Any) -> None:
    """A suite that fails to import is status 4, with what pytest printed last."""
    with pytest.raises(GateError, match="did not run to its end") as caught:
        run_gate(gate_request(SOUND + "raise RuntimeError('what a mess')"))

    assert (caught.value.status, "what a mess" in caught.value.tail) == (4, True)


def test_empty_suite_is_no_judgement(gate_request: Any) -> None:
    """A suite in which no test is tied to a requirement judges nothing, and says so."""
    with pytest.raises(GateError, match="no test was found"):
        run_gate(gate_request("def test_unmarked():\n    raise AssertionError('ran')\n"))


def test_only_limits_the_run(gate_request: Any) -> None:
    """With `only`, tests of other requirements do not run."""
    outcome = run_gate(gate_request(SOUND + BROKEN, only=("KEY-01",)))

    assert (outcome.status, statuses(outcome.report, "KEY-01", "KEY-02")) == (
        0,
        ["holds", "not-run"],
    )


RANDOM = """
from hypothesis import given, settings, strategies as st
drawn = []

@requirement("KEY-01")
def test_numbers():
    @settings(max_examples=20)
    @given(st.integers(0, 2**64))
    def draw(number):
        drawn.append(number)
    draw()
    raise Violation("KEY-01", str(hash(tuple(drawn))))
"""


def test_seed_decides_what_is_tried(gate_request: Any) -> None:
    """Equal seeds try equal examples, another seed tries others, none is deterministic."""
    seeds = (None, None, 7, 7, 8)
    reports = [run_gate(gate_request(RANDOM, seed=seed)).report for seed in seeds]
    tried = [words(report, "KEY-01") for report in reports]

    assert (tried[0] == tried[1], tried[2] == tried[3], len(set(tried))) == (True, True, 3)
    assert [report.suite.seed for report in reports] == list(seeds)


def test_profile_decides_how_much_is_tried(gate_request: Any) -> None:
    """`quick` tries fewer examples than `ci`."""
    source = """
from hypothesis import given, strategies as st

@requirement("KEY-01")
@given(st.integers())
def test_numbers(tally, number):
    tally(examples=1)
"""
    counts = [
        run_gate(gate_request(source, profile=profile)).report.counters["examples"]
        for profile in ("quick", "ci")
    ]

    assert counts == [20, 100]


def test_local_source_does_not_decide_what_is_tried(gate_request: Any) -> None:
    """Hypothesis draws no constants from the modules that happen to lie in a checkout."""
    source = """
import sys, types
from hypothesis.internal.conjecture import providers

@requirement("KEY-01")
def test_constants(subject):
    sys.modules["extra"] = module = types.ModuleType("extra")
    module.__file__ = subject.file
    assert len(providers.HypothesisProvider(None)._local_constants) == 0
"""
    report = run_gate(gate_request(source)).report

    assert words(report, "KEY-01") == ""


WORLDS = """
@requirement("KEY-01")
def test_world(world, fresh_folder):
    from pathlib import Path
    assert Path(world.cache_root).parent.is_dir()
    assert not list(fresh_folder().iterdir())
    raise Violation("KEY-01", str(Path(world.cache_root).parent))

@requirement("KEY-02")
def test_factory(world_factory):
    first, second = world_factory(), world_factory(devices=[])
    assert first.cache_root != second.cache_root
    assert second.devices == []
"""


def test_worlds_lie_in_scratch_and_leave_nothing(gate_request: Any) -> None:
    """Every world has a disk of its own, and all of them are gone after the run."""
    report = run_gate(gate_request(WORLDS)).report

    assert (statuses(report, "KEY-01", "KEY-02"), Path(words(report, "KEY-01")).exists()) == (
        ["violated", "holds"],
        False,
    )


def test_environment_does_not_disturb_the_run(
    gate_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that the user's shell gives to pytest are not for the gate."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "no-such-profile")

    assert run_gate(gate_request(SOUND)).status == 0


def test_subject_that_cannot_be_loaded_is_status_3(
    mini_suite: MiniSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A subject that is not there ends with a sentence that names it, and status 3."""
    mini_suite(SOUND)

    status = cli.run(["gate", str(tmp_path / "missing.py")])
    error = capsys.readouterr().err

    assert (status, "missing.py cannot be read" in error, "Traceback" in error) == (3, True, False)


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
        (["--state", "crash[k=3]"], "unknown crash state ID 'crash[k=3]'"),
        (["--seed", "-1"], "-1 is not in the range"),
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
    verdict = json.loads(paths[0].read_text())["summary"]["verdict"]

    assert (status, json.loads(paths[0].read_text())["suite"]["profile"]) == (1, "quick")
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
        *("-p", "startup_plan.harness.pytest_plugin", "--subject", "reference", str(suite)),
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
        *("-p", "startup_plan.harness.pytest_plugin", str(suite)),
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
        "import sys; from startup_plan import cli; cli.run(sys.argv[1:]); "
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


def test_suite_is_found_in_the_checkout() -> None:
    """The gate finds the suite that belongs to this package."""
    suite = find_suite()

    assert (suite / "tests" / "property").is_dir()


BLOCKING = """
import os

@requirement("KEY-01")
def test_a_sound():
    pass

@requirement("KEY-02")
def test_b_blocks():
    {ignore}
    with open({hello!r}, "w") as pipe:
        pipe.write(str(os.getpid()))
    with open({never!r}) as pipe:
        pipe.read()
"""

DRIVER = """
import sys
from pathlib import Path
from startup_plan import cli, cli_gate
cli_gate.find_suite = lambda: Path(sys.argv.pop(1))
cli.main()
"""


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("number", "ignore"),
    [
        (signal.SIGINT, "pass"),
        (signal.SIGTERM, "pass"),
        (signal.SIGINT, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    ],
    ids=["ctrl-c", "sigterm", "stubborn"],
)
def test_interrupted_run_leaves_a_partial_report_and_no_process(
    mini_suite: MiniSuite, tmp_path: Path, number: signal.Signals, ignore: str, workers: str
) -> None:
    """Ctrl-C ends every process of the run and leaves a report that says it is partial."""
    hello, never, path = tmp_path / "hello", tmp_path / "never", tmp_path / "r.json"
    os.mkfifo(hello)
    os.mkfifo(never)
    suite = mini_suite(BLOCKING.format(ignore=ignore, hello=str(hello), never=str(never)))
    command = [sys.executable, "-c", DRIVER, str(suite), "gate", "-n", workers, "--json", str(path)]
    listener = os.open(hello, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert select.select([listener], [], [], 60)[0]
            blocked = int(os.read(listener, 32))
            process.send_signal(number)
            process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(listener)
    report = json.loads(path.read_text())
    by_id = {r["id"]: (r["status"], r["counterexample"]) for r in report["requirements"]}

    assert (process.returncode, report["summary"]["partial"], by_id["KEY-01"][0]) == (
        128 + number,
        True,
        "holds",
    )
    assert by_id["KEY-02"] == (
        "not-run",
        f"interrupted by {number.name}: 1 of its 1 test had not finished; "
        "tests/property/test_mini.py::test_b_blocks was running",
    )
    with pytest.raises(ProcessLookupError):
        os.kill(blocked, 0)
