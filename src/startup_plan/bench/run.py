# SPDX-License-Identifier: Apache-2.0
"""Does a benchmark: round by round, phase by phase, a fresh server each time."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.bench.diagnosis.evidence import collect
from startup_plan.bench.orders.caches import make_caches, on_a_copy
from startup_plan.bench.orders.environment import (
    command_without_secrets,
    environment_of,
    without_secrets,
)
from startup_plan.bench.results.figures import figures_of
from startup_plan.bench.results.record import Answer, LogFact, Results, Run
from startup_plan.bench.server.launch import POLL_SECONDS, Server, new_marker
from startup_plan.bench.server.logs import tracebacks
from startup_plan.bench.server.stages import stages_of
from startup_plan.support import ports

from . import answers
from .checks import judge
from .errors import InterruptedRunError, RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.bench.orders.benchmark import Benchmark
    from startup_plan.bench.orders.phases import Phase
    from startup_plan.bench.server.logs import Log
    from startup_plan.support.process_group import StopSignals

_MOST_FACTS: Final = 200
_SHOWN: Final = 400

_HELD_EQUAL: Final = (
    "the command, the port, the health path, the requests and their order",
    "the environment, but for the variables that a phase sets and the marker of the run",
    "the caches of cache-hit, plan-fill and plan-hit: as cache-fill of the same round left them",
    "the order of phases in a round; rounds follow each other, so a drift touches all phases",
)
_NOT_HELD_EQUAL: Final = (
    "the page cache: the first server may read from the disk what later ones find in memory",
    "what else the machine does, and how fast it runs",
)


@final
class Runner:
    """Does one benchmark and keeps its results.

    Args:
        benchmark: what to do; it has been checked.
        stop: the signals that ask for the end.
        tell: takes a line about what is going on.
    """

    def __init__(
        self, benchmark: Benchmark, stop: StopSignals, tell: Callable[[str], None]
    ) -> None:
        """Start with empty results."""
        self._benchmark = benchmark
        self._stop = stop
        self._tell = tell
        self._inherited = dict(os.environ)
        self.results = _empty(benchmark)

    def run(self) -> Results:
        """Do all of it; whatever happens, the results so far are written.

        Raises:
            RefusalError: the server turned out to be one that must not be talked to.
            ReportPathError: the results cannot be written.
        """
        results = self.results
        self._benchmark.make_output()
        try:
            self._save()
            self._rounds()
            results.status = "finished"
        except InterruptedRunError:
            name = "a signal" if self._stop.number is None else self._stop.number.name
            results.status, results.reason = "interrupted", f"interrupted by {name}"
        except RefusalError as error:
            results.status, results.reason = "refused", str(error)
            raise
        except BaseException as error:
            results.status, results.reason = "broken", f"{type(error).__name__}: {error}"
            raise
        finally:
            results.ended = _now()
            self._save()
        return results

    def _rounds(self) -> None:
        benchmark = self._benchmark
        todo = [
            (repeat, phase)
            for repeat in range(1, benchmark.repeats + 1)
            for phase in benchmark.phases
        ]
        for repeat, phase in todo:
            if self._stop.number is not None:
                raise InterruptedRunError
            run = self._phase(phase, repeat)
            if run.healthy is None and phase.name != "first-reload":
                left = len(todo) - len(self.results.runs)
                what = "did not get healthy" if run.port_before is None else run.port_before
                self.results.reason = (
                    f"{phase.name} of round {repeat}: {what}; {left} further servers were not "
                    "launched"
                )
                return

    def _phase(self, phase: Phase, repeat: int) -> Run:
        run = Run(
            phase=phase.name,
            repeat=repeat,
            folder=f"runs/{repeat}-{phase.name}",
            caches=f"caches/{repeat}" + (f"-{phase.name}" if phase.own_caches else ""),
            settings=dict(phase.settings),
            launched=_now(),
        )
        self.results.runs.append(run)
        run.port_before = ports.in_use(self._benchmark.port)
        if run.port_before is None:
            caches = self._benchmark.output / run.caches
            if not caches.exists():
                make_caches(caches)
            copied = phase.name == "first-reload"
            with on_a_copy(caches) if copied else contextlib.nullcontext():
                self._launch(phase, run)
        self._save()
        self._tell(_told(run, self._benchmark))
        return run

    def _launch(self, phase: Phase, run: Run) -> None:
        benchmark = self._benchmark
        folder = benchmark.output / run.folder
        (folder / "responses").mkdir(parents=True)
        marker = new_marker()
        environment = environment_of(
            phase,
            caches=benchmark.output.resolve() / run.caches,
            marker=marker,
            extra=benchmark.extra,
            inherited=self._inherited,
        )
        _write(folder / "environment.json", without_secrets(environment))
        log = folder / "server.log"
        run.launched = _now()
        with Server(benchmark.command, environment, marker, log, self._stop) as server:
            try:
                run.healthy = server.wait_until_healthy(
                    benchmark.port, benchmark.health, benchmark.timeout
                )
                run.died = server.died
                if run.healthy is not None:
                    self._ask(server, run, folder / "responses")
                    # Afterwards: what looking takes must not be counted as the server's time.
                    server.check_listeners(benchmark.port)
            finally:
                run.ending = server.end(benchmark.grace)
                # Not whether it can be bound: somebody's connection may have the number by chance.
                run.port_after = ports.listened_on(benchmark.port)
                _note_log(run, server.log, log)
                caches = benchmark.output / run.caches
                traced = [name for names in server.log.traced.values() for name in names]
                _write(folder / "evidence.json", collect(caches, traced))

    def _ask(self, server: Server, run: Run, folder: Path) -> None:
        for request in self._benchmark.requests:
            reply = server.ask(
                self._benchmark.port, request.endpoint, request.body, self._benchmark.timeout
            )
            (folder / f"{request.name}.json").write_bytes(reply.body)
            trouble = reply.trouble
            if reply.status is not None and reply.status != 200:
                trouble = reply.body[:_SHOWN].decode(errors="replace")
            choices = answers.choices_of(reply.body) if reply.status == 200 else []
            run.answers.append(
                Answer(request.name, reply.status, reply.done - reply.sent, choices, trouble)
            )
            if run.answered is None and choices:
                run.answered = reply.done - server.launched
            self._save()

    def _save(self) -> None:
        results = self.results
        results.checks = judge(results.runs, self._benchmark.requests, self._benchmark.timeout)
        results.figures = figures_of(results.runs, results.checks)
        results.save(self._benchmark.output)


def _note_log(run: Run, log: Log, path: Path) -> None:
    run.traced = bool(log.traced)
    run.stages = stages_of(log, run.healthy, run.answered)
    counts: Counter[str] = Counter()
    for event in log.events:
        counts[event.kind] += 1
        if counts[event.kind] <= _MOST_FACTS:
            line = event.line
            text = line.message[:_SHOWN]
            run.facts.append(
                LogFact(event.kind, line.number, line.at, line.process, event.values, text)
            )
    if run.healthy is None:
        run.tail = list(log.tail)
        first = next(tracebacks(path), None)
        run.traceback = [] if first is None else first[1]


def _empty(benchmark: Benchmark) -> Results:
    return Results(
        version=importlib.metadata.version("startup-plan"),
        started=_now(),
        command=command_without_secrets(benchmark.command),
        settings={
            "port": benchmark.port,
            "health": benchmark.health,
            "phases": [phase.name for phase in benchmark.phases],
            "repeats": benchmark.repeats,
            "timeout_seconds": benchmark.timeout,
            "grace_seconds": benchmark.grace,
            "environment": without_secrets(benchmark.extra),
            "poll_seconds": POLL_SECONDS,
        },
        requests=[
            {name: getattr(request, name) for name in ("name", "endpoint", "sha256", "greedy")}
            for request in benchmark.requests
        ],
        machine={
            "system": platform.platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "usable_cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "python": platform.python_version(),
        },
        held_equal=list(_HELD_EQUAL),
        not_held_equal=list(_NOT_HELD_EQUAL),
    )


def _told(run: Run, benchmark: Benchmark) -> str:
    words = f"{run.phase} {run.repeat}/{benchmark.repeats}: "
    if run.port_before is not None:
        return words + f"not launched, {run.port_before}"
    if run.healthy is None:
        return words + "did not get healthy"
    words += f"healthy after {run.healthy:.2f} s, "
    if run.answered is None:
        return words + "no answer"
    return words + f"first answer after {run.answered:.2f} s"


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
