# SPDX-License-Identifier: Apache-2.0
"""Which lines of a log are understood. The samples are what vLLM 0.32.0 and 0.33.0 print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.bench.conftest import log_of

from startup_plan.bench.server.logs import Log, known_kinds, read_log, split_line, tracebacks

if TYPE_CHECKING:
    from pathlib import Path

CPU = "(Worker pid=20154) INFO 11-29 18:57:04 [cpu_worker.py:260] "
GPU = "(Worker_TP1 pid=7) INFO 11-29 18:57:04 [gpu_worker.py:1] "
DEBUG = "(Worker pid=1) DEBUG 11-29 18:57:54 [compilation/caching.py:608] "
ENGINE = "(EngineCore pid=20020) INFO 11-29 18:56:51 [core.py:133] "

SAMPLES = [
    ("engine-start", ENGINE + "Initializing a V1 LLM engine (v0.32.0) with config: model='m'", {}),
    ("load-start", CPU + "Starting to load model model...", {}),
    ("load-start", GPU + "Loading model from scratch...", {}),
    ("weights", CPU + "Loading weights took 0.01 seconds", {"seconds": "0.01"}),
    (
        "model",
        GPU + "Model loading took 14.99 GiB memory and 3.512345 seconds",
        {"gib": "14.99", "seconds": "3.512345"},
    ),
    ("compile", GPU + "torch.compile took 12.34 s in total", {"seconds": "12.34"}),
    (
        "compile",
        GPU + "[backbone] torch.compile and initial profiling/warmup run together took 9.87 s in "
        "total",
        {"seconds": "9.87"},
    ),
    (
        "profile-run",
        CPU + "[backbone] Initial profiling/warmup run took 0.01 s",
        {"seconds": "0.01"},
    ),
    ("warm-up-start", CPU + "Warming up model for the compilation...", {}),
    ("warm-up-end", CPU + "Warming up done.", {}),
    ("kv-measured", GPU + "Available KV cache memory: 35.12 GiB", {"gib": "35.12"}),
    (
        "kv-measured",
        CPU + "Auto set (5.2/11.34) GiB for KV cache on node 0, with 6.8 GiB requested memory",
        {"auto_gib": "5.2"},
    ),
    (
        "kv-given",
        CPU + "Explicitly set (1.0/11.34) GiB for KV cache on node 0.",
        {"set_gib": "1.0"},
    ),
    (
        "kv-given",
        GPU
        + "Initial free memory 79.1 GiB, reserved 33.85 GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling. This does not respect",
        {"gib": "33.85"},
    ),
    (
        "kv-tokens",
        ENGINE + "CPU KV cache size: 1,048,576 tokens, Maximum concurrency for 256 tokens per "
        "request: 4096.00x",
        {"tokens": "1,048,576"},
    ),
    ("kv-tokens", ENGINE + "GPU KV cache size: 287,648 tokens", {"tokens": "287,648"}),
    ("graphs", GPU + "Graph capturing finished in 12 secs, took 0.52 GiB", {"seconds": "12"}),
    (
        "engine-ready",
        ENGINE + "init engine (profile, create kv cache, warmup model) took 26.05 s "
        "(compilation: 12.34 s)",
        {"seconds": "26.05"},
    ),
    (
        "artifact-loaded",
        GPU
        + "[backbone] Directly load AOT compilation from path /c/torch_aot_compile/a1/rank_0_0/m",
        {"path": "/c/torch_aot_compile/a1/rank_0_0/m"},
    ),
    (
        "artifact-refused",
        DEBUG + "[backbone] Compiling model again due to a load failure from /c/rank_0_0/model, "
        "reason: 'function' object has no attribute 'finalize_loading'",
        {
            "path": "/c/rank_0_0/model",
            "reason": "'function' object has no attribute 'finalize_loading'",
        },
    ),
    (
        "artifact-saved",
        CPU + "[backbone] saved AOT compiled function to /c/rank_0_0/model",
        {"path": "/c/rank_0_0/model"},
    ),
    (
        "artifact-not-saved",
        CPU + "unable to save AOT compiled function to /c/rank_0_0/model: No space left on device",
        {"path": "/c/rank_0_0/model", "reason": "No space left on device"},
    ),
    (
        "graph-reused",
        GPU
        + "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took "
        "0.123 s",
        {},
    ),
    ("cache-disabled", GPU + "vLLM's torch.compile cache is disabled.", {}),
    (
        "traced-files",
        DEBUG + "Traced files (to be considered for compilation cache):",
        {},
    ),
    (
        "plan-applied",
        GPU + "Applying persisted startup plan (fingerprint ac5e4500b5d77017): "
        "kv_cache_memory_bytes=36349935616 (33.85 GiB), recorded free-memory baseline 79.50 GiB, "
        "current 79.50 GiB. Memory profiling will be skipped.",
        {"key": "ac5e4500b5d77017"},
    ),
    (
        "plan-applied",
        CPU + "Startup plan: applied ac5e4500b5d77017, KV cache 1 bytes (0.00 GiB), free memory 2 "
        "bytes (0.00 GiB), baseline 2 bytes (0.00 GiB); not measuring.",
        {"own_key": "ac5e4500b5d77017"},
    ),
    (
        "plan-saved",
        GPU + "Saved startup plan to /c/startup_plan/startup_plan_ac5e4500b5d77017.json",
        {"path": "/c/startup_plan/startup_plan_ac5e4500b5d77017.json"},
    ),
    (
        "plan-saved",
        CPU + "Startup plan: saved 5 bytes (0.00 GiB) to /c/startup_plan/startup_plan_a.json.",
        {"own_path": "/c/startup_plan/startup_plan_a.json"},
    ),
    (
        "plan-not-saved",
        GPU + "Failed to save startup plan to /c/p.json: [Errno 28] No space left on device",
        {"reason": "[Errno 28] No space left on device"},
    ),
    (
        "plan-not-saved",
        CPU + "Startup plan: not saved, 0 bytes (0.00 GiB) is not a positive size.",
        {"own_reason": "0 bytes (0.00 GiB) is not a positive size."},
    ),
    (
        "plan-refused",
        GPU + "Startup plan not applied: current free memory (1.00 GiB) is below the recorded "
        "baseline (2.00 GiB); falling back to full memory profiling.",
        {
            "reason": (
                "current free memory (1.00 GiB) is below the recorded baseline (2.00 GiB); "
                "falling back to full memory profiling."
            )
        },
    ),
    (
        "plan-refused",
        GPU + "Ignoring unreadable startup plan /c/p.json: Expecting value",
        {"unreadable": "/c/p.json: Expecting value"},
    ),
    ("plan-refused", CPU + "Startup plan: none found; profiling.", {"own_reason": "none found"}),
    (
        "plan-refused",
        CPU + "Startup plan: not used, kv_cache_memory_bytes was set explicitly.",
        {"unused": "kv_cache_memory_bytes was set explicitly."},
    ),
]

NEAR_MISSES = [
    "Compiling a graph for compile range (1, 8192) takes 3.21 s",
    "Encoder graph capturing finished in 3 secs, took 0.10 GiB (4 graphs)",
    "Initializing model took 0.099175 seconds",
    "Using LBHNC KV cache layout.",
    "Startup plan: a new word that nobody knows",
    "Starting vLLM server on http://127.0.0.1:8765",
    "Loading drafter model...",
]


@pytest.mark.parametrize(
    ("kind", "line", "values"), SAMPLES, ids=[f"{n}-{s[0]}" for n, s in enumerate(SAMPLES)]
)
def test_a_line_of_vllm_is_understood(kind: str, line: str, values: dict[str, str]) -> None:
    """Each line that matters is told apart from the others, and its values are read."""
    (event,) = log_of((1.5, line)).events

    assert (event.kind, event.values, event.line.at) == (kind, values, 1.5)


def test_every_known_line_has_a_sample() -> None:
    """No pattern is without a line that it was seen to match."""
    assert {kind for kind, _, _ in SAMPLES} == set(known_kinds())


@pytest.mark.parametrize("message", NEAR_MISSES)
def test_a_line_that_only_looks_alike_says_nothing(message: str) -> None:
    """A line that says something else is not taken for one of those that matter."""
    assert log_of((1.0, CPU + message)).events == []


@pytest.mark.parametrize(
    ("raw", "process", "message"),
    [
        (b"(Worker_TP0 pid=17) INFO 11-29 18:57:04 [a.py:68] text", "Worker_TP0 pid=17", "text"),
        (b"INFO 11-29 18:57:04 [a.py:68] text (with pid=1) x", "", "text (with pid=1) x"),
        (b"(EngineCore_DP0 pid=1) text", "EngineCore_DP0 pid=1", "text"),
        (
            b"\x1b[1;36m(Worker pid=3)\x1b[0;0m INFO 11-29 18:57:04 [a.py:1] t\r",
            "Worker pid=3",
            "t",
        ),
        (b"prefix: (Worker pid=3) INFO 11-29 18:57:04 [a.py:1] text", "Worker pid=3", "text"),
        (b"INFO:     Application startup complete.", "", "INFO:     Application startup complete."),
        (b"\xff\xfe", "", "\ufffd\ufffd"),
        (b"", "", ""),
    ],
)
def test_the_prefix_is_told_from_the_message(raw: bytes, process: str, message: str) -> None:
    """With or without process, level, colours and a prefix of the user's, the message is found."""
    line = split_line(raw, 1, None)

    assert (line.process, line.message) == (process, message)


def test_a_log_reads_the_same_however_it_arrives() -> None:
    """Lines that arrive in pieces are put together, and the last one needs no end."""
    text = "\n".join(line for _, line, _ in SAMPLES).encode()
    whole, pieces = Log(), Log()
    whole.feed(text)
    for byte in text:
        pieces.feed(bytes([byte]))
    whole.finish()
    pieces.finish()

    assert [(e.kind, e.line.number) for e in pieces.events] == [
        (kind, number) for number, (kind, _, _) in enumerate(SAMPLES, 1)
    ]
    assert pieces.events == whole.events


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    """Of a line of many megabytes only its beginning is kept."""
    log = Log()
    for _ in range(64):
        log.feed(b"x" * (1 << 17))
    log.feed(b"\nWarming up done.\n")

    assert ([event.kind for event in log.events], max(map(len, log.tail))) == (
        ["warm-up-end"],
        4096,
    )


def test_traced_files_are_listed_by_process() -> None:
    """The files of a list are those lines of the same process that follow it without a break."""
    head = "(Worker pid={}) DEBUG 11-29 18:57:54 [compilation/caching.py:608] "
    one, two = head.format(1), head.format(2)
    log = log_of(
        (1.0, one + "Traced files (to be considered for compilation cache):\r"),
        (1.0, one + "/lib/a.py\r"),
        (1.0, one + "<frozen os>\r"),
        (1.0, two + "/not/of/this/list.py"),
        (1.0, one + "/nor/this.py"),
    )

    assert log.traced == {"Worker pid=1": ["/lib/a.py", "<frozen os>"]}


def test_tracebacks_are_told_apart_by_process(tmp_path: Path) -> None:
    """Two processes that print their tracebacks at once are not mixed up."""
    path = tmp_path / "server.log"
    path.write_text(
        "(Worker_TP0 pid=1) ERROR 11-29 18:57:54 [a.py:1] Traceback (most recent call last):\n"
        "(Worker_TP1 pid=2) ERROR 11-29 18:57:54 [a.py:1] Traceback (most recent call last):\n"
        '(Worker_TP0 pid=1) ERROR 11-29 18:57:54 [a.py:1]   File "a.py", line 1, in f\n'
        '(Worker_TP1 pid=2) ERROR 11-29 18:57:54 [a.py:1]   File "b.py", line 2, in g\n'
        "(Worker_TP1 pid=2) ERROR 11-29 18:57:54 [a.py:1] KeyError: 'b'\n"
        "(Worker_TP0 pid=1) ERROR 11-29 18:57:54 [a.py:1] ValueError: a\n"
    )
    found = [(line.process, line.number, text[1:]) for line, text in tracebacks(path)]

    assert found == [
        ("Worker_TP1 pid=2", 2, ['  File "b.py", line 2, in g', "KeyError: 'b'"]),
        ("Worker_TP0 pid=1", 1, ['  File "a.py", line 1, in f', "ValueError: a"]),
    ]


def test_a_log_file_is_read_as_it_was_followed(tmp_path: Path) -> None:
    """What is read back from the file is what was read while the server ran."""
    path = tmp_path / "server.log"
    path.write_text("".join(f"{line}\n" for _, line, _ in SAMPLES))
    log = read_log(path)

    assert [event.kind for event in log.events] == [kind for kind, _, _ in SAMPLES]
