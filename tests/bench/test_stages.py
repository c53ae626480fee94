# SPDX-License-Identifier: Apache-2.0
"""Where the time went: only what the log says, and never more than there was."""

from __future__ import annotations

from tests.bench.conftest import log_of

from startup_plan.bench.server.stages import stages_of

WORKER = "(Worker pid=2) INFO 11-29 18:57:04 [a.py:1] "
OTHER = "(Worker_TP1 pid=3) INFO 11-29 18:57:04 [a.py:1] "
ENGINE = "(EngineCore pid=1) INFO 11-29 18:57:04 [a.py:1] "

GPU = (
    (8.0, WORKER + "Starting to load model m..."),
    (10.0, WORKER + "Loading weights took 1.50 seconds"),
    (11.0, WORKER + "Model loading took 14.99 GiB memory and 3.000000 seconds"),
    (31.0, WORKER + "torch.compile took 20.00 s in total"),
    (34.0, WORKER + "Available KV cache memory: 35.12 GiB"),
    (34.5, ENGINE + "GPU KV cache size: 287,648 tokens"),
    (40.5, WORKER + "Graph capturing finished in 5 secs, took 0.52 GiB"),
    (41.5, ENGINE + "init engine (profile, create kv cache, warmup model) took 30.50 s"),
)

CPU = (
    (8.0, WORKER + "Starting to load model m..."),
    (8.2, WORKER + "Loading weights took 0.00 seconds"),
    (9.0, WORKER + "Warming up model for the compilation..."),
    (33.0, WORKER + "saved AOT compiled function to /c/model"),
    (34.0, WORKER + "Warming up done."),
    (34.5, WORKER + "Auto set (5.2/11.34) GiB for KV cache on node 0, with"),
    (34.6, ENGINE + "CPU KV cache size: 1,048,576 tokens"),
    (35.0, ENGINE + "init engine (profile, create kv cache, warmup model) took 26.00 s"),
)


def _seconds(*lines: tuple[float, str], healthy: float, answered: float | None) -> dict[str, float]:
    stages = stages_of(log_of(*lines), healthy, answered)
    return {stage.name: round(stage.seconds, 3) for stage in stages}


def test_the_log_of_a_gpu_server() -> None:
    """A server with GPUs states its compile and capture times; the rest lies between lines."""
    found = _seconds(*GPU, healthy=43.0, answered=43.25)

    assert found == {
        "process start": 8.0,
        "weights": 3.0,
        "compile": 20.0,
        "memory profiling": 3.0,
        "graph capture": 5.0,
        "warm-up": 2.0,
        "serving": 1.5,
        "first answer": 0.25,
        "elsewhere": 0.5,
    }


def test_the_log_of_a_cpu_server() -> None:
    """A server without GPUs states no compile time, so it is what lies between two lines."""
    found = _seconds(*CPU, healthy=36.0, answered=36.5)

    assert found == {
        "process start": 8.0,
        "weights": 0.2,
        "compile": 24.0,
        "warm-up": 1.0,
        "memory profiling": 0.5,
        "serving": 1.0,
        "first answer": 0.5,
        "elsewhere": 1.3,
    }


def test_a_cpu_server_that_keeps_no_artifact() -> None:
    """Where no line tells compiling from warming up, the two are one stage, which says so."""
    lines = [line for line in CPU if "saved AOT" not in line[1]]
    (warm,) = (stage for stage in stages_of(log_of(*lines), 36.0, None) if stage.name == "warm-up")

    assert (warm.seconds, warm.source) == (
        25.0,
        "from line 3 (warm-up-start) to line 4 (warm-up-end), and what is compiled in it",
    )


def test_a_silent_server_has_no_stages() -> None:
    """Where the log says nothing, nothing is made up."""
    found = _seconds((1.0, "hello"), healthy=2.0, answered=3.0)

    assert found == {"first answer": 1.0, "elsewhere": 2.0}


def test_a_missing_line_leaves_its_stage_out() -> None:
    """Without the line that ends it a stage is missing, and its time is elsewhere."""
    lines = [line for line in GPU if "Available KV" not in line[1]]
    found = _seconds(*lines, healthy=43.0, answered=None)

    assert ("memory profiling" in found, found["elsewhere"]) == (False, 3.5)


def test_processes_that_work_side_by_side_count_once() -> None:
    """Of several processes the slowest counts; of several compilations of one process the sum."""
    more = (
        (31.0, WORKER + "torch.compile took 1.00 s in total"),
        (31.0, OTHER + "torch.compile took 20.50 s in total"),
    )
    found = _seconds(*GPU, *more, healthy=43.0, answered=None)

    assert found["compile"] == 21.0


def test_lines_that_contradict_the_clock_are_not_shown() -> None:
    """If the stages add up to more than the time there was, none of them is believed."""
    lines = [(at, line.replace("20.00", "2000.00")) for at, line in GPU]
    found = _seconds(*lines, healthy=43.0, answered=43.25)

    assert found == {"elsewhere": 43.25}


def test_a_log_that_was_read_afterwards_has_only_what_it_states() -> None:
    """Without the times of its lines a log says only what its lines state."""
    stages = stages_of(log_of(*((None, line) for _, line in GPU)), None, None)

    assert {stage.name: stage.seconds for stage in stages} == {
        "weights": 3.0,
        "compile": 20.0,
        "graph capture": 5.0,
    }
