# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in the middle of a run."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.meta.conftest import MiniSuite

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
from startup_plan.cli import gate as cli_gate, main as cli
suite = Path(sys.argv.pop(1))
cli_gate.find_suite = lambda: suite
cli.main()
"""


NEVER_LOADED = """
import os
with open({hello!r}, "w") as pipe:
    pipe.write(str(os.getpid()))
with open({never!r}) as pipe:
    pipe.read()
"""


@pytest.mark.parametrize("against", [False, True], ids=["alone", "base"])
def test_interrupted_load_says_that_it_was_loading(
    mini_suite: MiniSuite, tmp_path: Path, against: bool
) -> None:
    """Ctrl-C while a subject is imported is said to be that, with status 130 and no traceback."""
    hello, never, subject = tmp_path / "hello", tmp_path / "never", tmp_path / "plan.py"
    os.mkfifo(hello)
    os.mkfifo(never)
    subject.write_text(NEVER_LOADED.format(hello=str(hello), never=str(never)))
    suite = mini_suite("")
    arguments = ["gate", str(subject), "-n", "0", *(["--against", "reference"] if against else [])]
    command = [sys.executable, "-c", DRIVER, str(suite), *arguments]
    listener = os.open(hello, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert select.select([listener], [], [], 60)[0] == [listener]
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(listener)

    assert (process.returncode, b"Traceback" in printed) == (130, False)
    assert b" being loaded" in printed


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
        ended = os.pidfd_open(process.pid)
        try:
            assert select.select([listener, ended], [], [], 60)[0] == [listener]
            blocked = int(os.read(listener, 32))
            process.send_signal(number)
            process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(listener)
            os.close(ended)
    report = json.loads(path.read_text())
    by_id = {r["id"]: (r["status"], r["counterexample"]) for r in report["requirements"]}

    assert (process.returncode, report["summary"]["partial"], by_id["KEY-01"][0]) == (
        128 + number,
        True,
        "holds",
    )
    assert by_id["KEY-02"] == (
        "not-run",
        (
            f"interrupted by {number.name}: 1 of its 1 test had not finished; "
            "tests/property/test_mini.py::test_b_blocks was running"
        ),
    )
    with pytest.raises(ProcessLookupError):
        os.kill(blocked, 0)
