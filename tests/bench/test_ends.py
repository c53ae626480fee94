# SPDX-License-Identifier: Apache-2.0
"""How servers end, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.bench.conftest import is_gone, server_command

from startup_plan.bench.server import Ending, Server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.conftest import Measure

# Those that are told to ignore TERM wait the grace time out.
IMPATIENT = ("--grace", "0.3")


@pytest.mark.parametrize("behaviour", ["child", "daemon", "wiped", "keeps-port", "ignores-term"])
def test_what_is_left_is_named_and_killed(measure: Measure, behaviour: str) -> None:
    """A process that outlives the grace time fails the check and is killed, wherever it is."""
    outcome = measure(behaviour, phases="uncached", options=IMPATIENT)
    (ending,) = (run["ending"] for run in outcome.results["runs"])
    pids = [int(pid) for words in ending["left"] for pid in re.findall(r"pid (\d+)", words)]

    assert (outcome.status, set(outcome.failed), ending["how"], ending["immortal"]) == (
        1,
        {("no-process-left", "uncached")},
        "KILL",
        [],
    )
    assert (len(pids), [is_gone(pid) for pid in pids]) == (1, [True])


def test_a_crash_in_start_up_shows_why(measure: Measure) -> None:
    """A server that dies before it is healthy fails, and the tail of its log is shown."""
    outcome = measure("crash", phases="uncached,cache-fill")

    assert (outcome.status, outcome.failed) == (
        1,
        {
            ("health", "uncached"): (
                "ended with status 3 before it was healthy; RuntimeError: the scripted crash"
            )
        },
    )
    assert "RuntimeError: the scripted crash" in outcome.err
    assert outcome.results["reason"] == (
        "uncached of round 1: did not get healthy; 1 further servers were not launched"
    )


def test_a_crash_that_leaves_a_process_is_still_a_crash(measure: Measure) -> None:
    """A server whose first process dies in start-up is not waited for because of what it left."""
    outcome = measure("messy-crash", phases="uncached", options=IMPATIENT)

    assert (set(outcome.failed), outcome.failed["health", "uncached"]) == (
        {("health", "uncached"), ("no-process-left", "uncached")},
        "ended with status 3 before it was healthy; RuntimeError: the scripted crash",
    )


def test_what_cannot_be_judged_is_not_applicable(measure: Measure) -> None:
    """Of a server that never got healthy only that is held against it."""
    outcome = measure("cache-hit:crash", phases="cache-fill,cache-hit")
    applied = outcome.verdicts

    assert (set(outcome.failed), applied["artifacts-loaded"], applied["identical-answers"]) == (
        {("health", "cache-hit")},
        {"not-applicable"},
        {"not-applicable"},
    )
    assert applied["answers"] == {"passed", "not-applicable"}


def test_nobody_else_is_ended(measure: Measure) -> None:
    """A process that has nothing to do with the server lives on, whatever is done to the server."""
    pause = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    with subprocess.Popen(pause) as ours, subprocess.Popen(pause, start_new_session=True) as other:
        outcome = measure("daemon", phases="uncached", options=IMPATIENT)
        alive = [process.poll() is None for process in (ours, other)]
        ours.kill()
        other.kill()

    assert (set(outcome.failed), alive) == ({("no-process-left", "uncached")}, [True, True])


def test_an_end_in_start_up_without_an_error_is_a_failure(measure: Measure) -> None:
    """A server that ends with status 0 and leaves nobody behind has not become healthy."""
    outcome = measure("quiet-end", phases="uncached")

    assert outcome.failed == {("health", "uncached"): "ended with status 0 before it was healthy"}


@pytest.mark.parametrize("behaviour", ["unhealthy", "silent"])
def test_a_server_that_never_gets_healthy_is_ended(measure: Measure, behaviour: str) -> None:
    """At the time-out the server is ended and the check on health fails."""
    outcome = measure(behaviour, phases="uncached", options=("--timeout", "0.2"))
    (run,) = outcome.results["runs"]

    assert (outcome.status, outcome.failed, run["ending"]["how"]) == (
        1,
        {("health", "uncached"): "not healthy within 0.2 s"},
        "TERM",
    )


def test_a_port_that_stays_in_use_fails(
    measure: Measure, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens once the server is gone fails this phase and keeps the next from starting."""
    original = Server.end
    with contextlib.ExitStack() as stack:

        def end(self: Server, grace: float) -> Ending:
            ending = original(self, grace)
            if ending.how == "TERM":
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return ending

        monkeypatch.setattr(Server, "end", end)
        outcome = measure(phases="uncached,cache-fill")

    assert (outcome.status, set(outcome.failed)) == (
        1,
        {("port-free-after", "uncached"), ("port-free-before", "cache-fill")},
    )
    assert not (outcome.folder / "runs" / "1-cache-fill").exists()


@pytest.mark.parametrize(
    ("number", "behaviours", "how"),
    [
        (signal.SIGINT, ["stuck"], "TERM"),
        (signal.SIGTERM, ["silent"], "TERM"),
        (signal.SIGINT, ["silent", "ignores-term"], "KILL"),
    ],
    ids=["ctrl-c-in-a-request", "sigterm-in-start-up", "ctrl-c-and-a-stubborn-server"],
)
def test_an_interrupted_benchmark_leaves_results_and_no_process(
    tmp_path: Path,
    port: int,
    requests: list[str],
    number: signal.Signals,
    behaviours: list[str],
    how: str,
) -> None:
    """Ctrl-C ends the server and leaves the results so far."""
    hello, folder = tmp_path / "hello", tmp_path / "out"
    os.mkfifo(hello)
    bench = [
        sys.executable,
        "-m",
        "startup_plan",
        "bench",
        "--output-dir",
        str(folder),
    ]
    bench += ["--port", str(port), *requests, "--phases", "uncached,cache-fill", *IMPATIENT, "--"]
    command = [*bench, *server_command(port, "--hello", str(hello), *behaviours)]
    listener = os.open(hello, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        ended = os.pidfd_open(process.pid)
        try:
            assert select.select([listener, ended], [], [], 60)[0] == [listener]
            server = int(os.read(listener, 32))
            process.send_signal(number)
            process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(listener)
            os.close(ended)
    results: dict[str, Any] = json.loads((folder / "results.json").read_bytes())
    (run,) = results["runs"]

    assert (process.returncode, results["status"], results["reason"]) == (
        128 + number,
        "interrupted",
        f"interrupted by {number.name}",
    )
    assert (run["ending"]["how"], is_gone(server)) == (how, True)
