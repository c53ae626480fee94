# SPDX-License-Identifier: Apache-2.0
"""Where the time of a start-up went, as far as the server's log says so. All times in seconds.

A stage is either a number that a line states, or the time between two lines as they came. Where the
lines are missing the stage is missing too, and its time shows up under `elsewhere`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .logs import Event, Log

STAGES: Final = (
    "process start",
    "weights",
    "compile",
    "memory profiling",
    "graph capture",
    "warm-up",
    "serving",
    "first answer",
)
"""All stages, in the order of a start-up."""

ELSEWHERE: Final = "elsewhere"
"""The time that no line of the log accounts for."""

# Two lines that come together are seen at one moment, and printed numbers are rounded.
_ROUNDING: Final = 0.05


@final
@dataclass(frozen=True, slots=True)
class StartupStage:
    """One part of a start-up.

    Args:
        name: one of `STAGES`, or `elsewhere`.
        seconds: how long it took.
        source: which lines of the log say so.
    """

    name: str
    seconds: float
    source: str


def stages_of(log: Log, healthy: float | None, answered: float | None) -> list[StartupStage]:
    """Give the stages that are known, and what remains of the time until the first answer.

    Args:
        log: read while the server ran, so that each line has its time.
        healthy: when the server was healthy, counted from its launch.
        answered: when the first answer was complete, counted from the launch.
    """
    found = [stage for stage in _stages(log, healthy) if stage.seconds >= 0]
    end = healthy
    if healthy is not None and answered is not None:
        found.append(StartupStage("first answer", answered - healthy, "the benchmark's own clock"))
        end = answered
    if end is not None:
        rest = end - sum(stage.seconds for stage in found)
        if rest >= 0:
            found.append(StartupStage(ELSEWHERE, rest, "no line of the log says"))
        elif rest < -_ROUNDING * len(found):
            # The lines contradict the clock, so they are not shown as parts of it.
            return [
                StartupStage(ELSEWHERE, end, "the lines of the log add up to more than the time")
            ]
    return found


def _stages(log: Log, healthy: float | None) -> Iterator[StartupStage]:
    loading = log.first("load-start") or log.first("engine-start")
    if loading is not None and loading.line.at is not None:
        yield StartupStage("process start", loading.line.at, f"until {_named(loading)}")
    loaded = log.last("weights", "model")
    if loaded is not None:
        yield _between("weights", log.first("load-start"), loaded) or _stated("weights", [loaded])
    compiling = _compile(log)
    if compiling is not None:
        yield compiling
    yield from _rest(log, loaded, None if compiling is None else compiling.seconds)
    ready = log.last("engine-ready")
    if ready is not None and ready.line.at is not None and healthy is not None:
        yield StartupStage(
            "serving", healthy - ready.line.at, f"from {_named(ready)} until healthy"
        )


def _rest(log: Log, loaded: Event | None, compiled: float | None) -> Iterator[StartupStage]:
    warm_start, warm_end = log.first("warm-up-start"), log.last("warm-up-end")
    sized = log.last("kv-measured", "kv-given")
    captured = log.having("graphs")
    capture = _stated("graph capture", captured) if captured else None
    if warm_start is not None and warm_end is not None:
        # A worker of CPUs compiles and warms up first, then looks at the memory.
        warm = _between("warm-up", warm_start, warm_end, compiled)
        if warm is not None and compiled is None:
            warm = StartupStage(
                warm.name, warm.seconds, f"{warm.source}, and what is compiled in it"
            )
        profiling = _between("memory profiling", warm_end, sized)
    else:
        profiling = _between("memory profiling", loaded, sized, compiled)
        after = log.last("kv-tokens")
        less = None if capture is None else capture.seconds
        warm = _between("warm-up", after, log.last("engine-ready"), less)
    yield from (stage for stage in (profiling, capture, warm) if stage is not None)


def _compile(log: Log) -> StartupStage | None:
    stated = log.having("compile")
    if stated:
        return _stated("compile", stated)
    # Outside of vLLM's own compile mode no line states the time.
    done = log.first("artifact-saved", "artifact-loaded")
    return _between("compile", log.first("warm-up-start"), done)


def _stated(name: str, events: list[Event]) -> StartupStage:
    """Add up what each process states, and take the slowest one: processes work side by side."""
    sums: defaultdict[str, float] = defaultdict(float)
    for event in events:
        sums[event.line.process] += event.seconds or 0.0
    numbers = ", ".join(str(event.line.number) for event in events)
    return StartupStage(name, max(sums.values()), f"stated in line {numbers}")


def _between(
    name: str, start: Event | None, end: Event | None, less: float | None = None
) -> StartupStage | None:
    if start is None or end is None or start.line.at is None or end.line.at is None:
        return None
    source = f"from {_named(start)} to {_named(end)}"
    seconds = end.line.at - start.line.at - (less or 0.0)
    if -_ROUNDING <= seconds < 0:
        seconds = 0.0
    return StartupStage(
        name, seconds, source + (", less what is counted by itself" if less else "")
    )


def _named(event: Event) -> str:
    return f"line {event.line.number} ({event.kind})"
