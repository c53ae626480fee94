# SPDX-License-Identifier: Apache-2.0
"""Results that are written as the run goes, and the reports made of them."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest
from tests.bench.conftest import server_command

from startup_plan.bench.errors import RefusalError
from startup_plan.bench.orders.benchmark import Benchmark
from startup_plan.bench.orders.phases import choose_phases
from startup_plan.bench.orders.requests import Request
from startup_plan.bench.results.html import render_html
from startup_plan.bench.results.record import Answer, Check, Results, Run
from startup_plan.bench.run import Runner
from startup_plan.bench.server.stages import ELSEWHERE, STAGES, StartupStage
from startup_plan.bench.server.talk import Exchange, is_healthy
from startup_plan.cli import main as cli
from startup_plan.support.process_group import StopSignals

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.conftest import Measure


def _benchmark(folder: Path, port: int) -> Benchmark:
    return Benchmark(
        command=tuple(server_command(port)),
        output=folder,
        port=port,
        requests=(Request("text", "/v1/completions", b'{"prompt": ""}', greedy=False),),
        phases=choose_phases("uncached,cache-fill"),
        repeats=1,
        timeout=60.0,
        grace=20.0,
        health="/health",
        extra={},
    )


def test_results_are_whole_after_every_server(tmp_path: Path, port: int) -> None:
    """While the benchmark runs its results can be read, with what there is so far."""
    folder = tmp_path / "out"
    seen: list[tuple[str, int]] = []

    def look(_: str) -> None:
        document = json.loads((folder / "results.json").read_bytes())
        seen.append((document["status"], len(document["runs"])))

    with StopSignals() as stop:
        results = Runner(_benchmark(folder, port), stop, look).run()

    assert (seen, results.status) == ([("running", 1), ("running", 2)], "finished")


def test_results_survive_a_defect(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the benchmark itself breaks down, what there was is written, and so is the reason."""

    def break_down(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("startup_plan.bench.run.stages_of", break_down)
    with StopSignals() as stop, pytest.raises(ZeroDivisionError):
        Runner(_benchmark(tmp_path / "out", port), stop, lambda _: None).run()
    document = json.loads((tmp_path / "out" / "results.json").read_bytes())

    assert (document["status"], document["reason"], len(document["runs"])) == (
        "broken",
        "ZeroDivisionError: a defect",
        1,
    )


def test_the_table_names_phases_gains_and_failures(measure: Measure) -> None:
    """What is printed has the times, the gains, and the evidence of what failed."""
    outcome = measure("length", phases="uncached,cache-fill,cache-hit")

    assert re.search(r"cache-hit\s+│ 1 of 1\s+│ \d+\.\d\d s", outcome.out) is not None
    assert re.search(r"compile cache: -?\d+\.\d\d s saved by cache-hit against", outcome.out)
    assert "startup plan: no figure, cache-hit and plan-hit were not both" in outcome.out
    assert "failed not-cut-short of uncached, round 1: stopped by the length limit" in " ".join(
        outcome.out.split()
    )


def _results(*, choices: list[Any], stages: list[StartupStage], evidence: str) -> Results:
    run = Run("cache-hit", 1, "runs/1-cache-hit", "caches/1", {}, "2026-01-01T00:00:00+00:00")
    run.healthy, run.answered, run.stages = 3.0, 4.0, stages
    run.answers = [Answer("text", 200, 1.0, choices)]
    results = Results("0", "", ["server", "<b>"], {}, [], {}, ["the command"], ["the weather"])
    results.runs = [run]
    results.checks = [Check("answers", "cache-hit", 1, "failed", evidence)]
    results.figures = {
        "phases": {
            "cache-hit": {
                "runs": 1,
                "answered_runs": 1,
                "healthy": None,
                "answered": None,
                "stages": {stage.name: None for stage in stages},
            }
        },
        "gains": {},
    }
    return results


def test_the_page_has_a_bar_with_every_stage() -> None:
    """Each server that answered has a bar, and each stage its share of the longest."""
    names = (*STAGES, ELSEWHERE)
    stages = [StartupStage(name, 4.0 / len(names), "line 1") for name in names]
    page = render_html(_results(choices=[], stages=stages, evidence=""))
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", page)]

    assert (len(widths), round(sum(widths))) == (len(names), 100)
    assert all(f"</i>{name}</li>" in page for name in names)
    assert ("Held equal" in page, "the weather" in page) == (True, True)


def test_the_page_shows_hostile_words_as_words() -> None:
    """What servers say cannot become part of the page, and half a character does not stop it."""
    results = _results(choices=[], stages=[], evidence="<script>\ud800</script>")
    page = render_html(results)

    assert ("<script>" in page, "&lt;script&gt;" in page, "<b>" in page) == (False, True, False)
    assert page.encode()


def test_half_a_character_does_not_stop_the_results(tmp_path: Path) -> None:
    """An answer that is no proper text is kept all the same."""
    _results(choices=[{"text": "\ud800"}], stages=[], evidence="").save(tmp_path)
    document = json.loads((tmp_path / "results.json").read_bytes())

    assert document["runs"][0]["answers"][0]["choices"] == [{"text": "\ud800"}]


def test_a_server_that_says_nothing_is_not_healthy_and_gives_no_answer() -> None:
    """Silence is ended by the time-out, for the question for health and for a request alike."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        healthy = is_healthy(port, "/health", 0.02)
        reply = Exchange(port, "/v1/completions", b"{}", 0.02).wait(lambda: False)

    assert reply is not None
    assert (healthy, reply.status, reply.trouble) == (False, None, "TimeoutError: timed out")


def test_waiting_for_an_answer_can_be_given_up() -> None:
    """Whoever waits for an answer can stop before there is one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reply = Exchange(silent.getsockname()[1], "/", b"", 60.0).wait(lambda: True)

    assert reply is None


def test_a_command_that_vanishes_is_refused(tmp_path: Path, port: int) -> None:
    """A program that was there when it was looked for and is not any more ends in a sentence."""
    benchmark = _benchmark(tmp_path / "out", port)
    gone = Benchmark(
        **{name: getattr(benchmark, name) for name in Benchmark.__slots__}
        | {"command": ("/no/such/program",)}
    )
    with StopSignals() as stop, pytest.raises(RefusalError, match="cannot be executed"):
        Runner(gone, stop, lambda _: None).run()
    document = json.loads((tmp_path / "out" / "results.json").read_bytes())

    assert document["status"] == "refused"


def test_the_command_line_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names every option, every phase and what the exit status means."""
    status = cli.run(["bench", "--help"])
    words = " ".join(capsys.readouterr().out.split())

    assert status == 0
    assert "[OPTIONS] -- COMMAND" in words
    # A name may be broken at its hyphen.
    assert all(phase.name in words.replace("- ", "-") for phase in choose_phases(None))
    assert all(
        option in words
        for option in ("--output-dir", "--port", "--request", "--phases", "--repeats", "--timeout")
    )
    assert "Exit status: 0 every check passed" in words
