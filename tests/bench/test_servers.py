# SPDX-License-Identifier: Apache-2.0
"""The benchmark against servers that behave, and against those that do not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.bench.conftest import Measure

ALL = "uncached,cache-fill,first-reload,cache-hit,plan-fill,plan-hit"
CHECKS = {
    "port-free-before",
    "health",
    "answers",
    "not-cut-short",
    "nothing-reused",
    "artifacts-loaded",
    "plan-saved",
    "plan-applied",
    "kv-size-equal",
    "equal-compile",
    "no-process-left",
    "port-free-after",
    "identical-answers",
}


def test_every_check_passes_on_a_server_that_behaves(measure: Measure) -> None:
    """A stable server passes every check there is, in every phase."""
    outcome = measure(phases=ALL)

    assert (outcome.status, outcome.failed, outcome.verdicts) == (
        0,
        {},
        {name: {"passed"} for name in CHECKS},
    )


@pytest.mark.parametrize(
    "behaviours",
    [["slow"], ["forks"], ["forks", "slow"]],
    ids=["gets-healthy-late", "goes-to-the-background", "goes-there-before-it-is-healthy"],
)
def test_an_unusual_server_that_works_passes(measure: Measure, behaviours: list[str]) -> None:
    """A server may take its time, and may leave the process that was launched."""
    outcome = measure(*behaviours, phases="uncached")

    assert (outcome.status, outcome.failed) == (0, {})


@pytest.mark.parametrize(
    ("behaviour", "phases", "check", "evidence"),
    [
        ("drifting", "uncached,cache-fill", "identical-answers", r"choices\[0\]\.(text|message)"),
        ("drifting-tool", "uncached,cache-fill", "identical-answers", r"function\.arguments"),
        ("length", "uncached", "not-cut-short", "text, code; raise max_tokens"),
        ("error", "uncached", "answers", "status 500 .*the scripted error"),
        ("empty", "uncached", "answers", "an answer without choices"),
        ("hang-up", "uncached", "answers", "no answer .RemoteDisconnected"),
        ("dies-later", "uncached", "answers", "no answer .RemoteDisconnected"),
        ("warm", "cache-fill", "nothing-reused", "caches were to be empty"),
        ("no-artifact", "cache-fill,cache-hit", "artifacts-loaded", "no line says"),
        (
            "bad-load",
            "cache-fill,cache-hit",
            "artifacts-loaded",
            "finalize_loading.*without a word",
        ),
        ("fewer-loads", "cache-fill,cache-hit", "artifacts-loaded", "2 artifacts .* only 1 loaded"),
        ("cache-hit:disabled", "cache-fill,cache-hit", "artifacts-loaded", "cache is disabled"),
        ("no-plan", "cache-fill,plan-fill", "plan-saved", "no line says"),
        ("plan-fill:plan-early", "cache-fill,plan-fill", "plan-saved", "was to be no plan yet"),
        ("plan-refused", "cache-fill,plan-fill,plan-hit", "plan-applied", "below the baseline"),
        ("plan-measures", "cache-fill,plan-fill,plan-hit", "plan-applied", "and still .*Available"),
        ("two-plans", "cache-fill,plan-fill,plan-hit", "plan-applied", "2 plans .* only 1 applied"),
        ("plan-hit:other-kv", "cache-fill,plan-fill,plan-hit", "kv-size-equal", r"4,096 .* 2,048"),
        ("plan-hit:no-kv", "cache-fill,plan-fill,plan-hit", "kv-size-equal", "does not state"),
        (
            "plan-hit:no-artifact",
            "cache-fill,cache-hit,plan-fill,plan-hit",
            "equal-compile",
            "artifact-loaded: 0 in plan-hit and 2 in cache-hit",
        ),
    ],
    ids=lambda value: value if re.fullmatch(r"[a-z:-]+", str(value)) else "",
)
def test_a_check_fails_where_it_should(
    measure: Measure, behaviour: str, phases: str, check: str, evidence: str
) -> None:
    """Each misbehaviour fails the check that is about it, and no other."""
    outcome = measure(behaviour, phases=phases)

    assert (outcome.status, {name for name, _ in outcome.failed}) == (1, {check})
    assert all(re.search(evidence, words) for words in outcome.failed.values())


def test_the_first_reload_is_made_on_a_copy(measure: Measure) -> None:
    """A forced reload shows the original traceback, and the artifacts stay as cache-fill saved."""
    outcome = measure("bad-load", phases="cache-fill,first-reload,cache-hit")
    caches = outcome.folder / "caches"
    kept = {
        name: (caches / name / "vllm" / "torch_compile_cache" / "model").read_text()
        for name in ("1.initial", "1")
    }
    _, reload, hit = outcome.results["runs"]

    assert reload["traceback"][-1] == (
        "AttributeError: 'function' object has no attribute 'finalize_loading'"
    )
    assert (hit["healthy"] is not None, kept) == (
        True,
        {"1.initial": "cache-fill\n", "1": "cache-fill\ncache-hit\n"},
    )
    assert set(outcome.failed) == {
        ("health", "first-reload"),
        ("artifacts-loaded", "first-reload"),
        ("artifacts-loaded", "cache-hit"),
    }


def test_rounds_are_interleaved_and_have_caches_of_their_own(measure: Measure) -> None:
    """With --repeats each round runs all phases, on caches that nobody else has."""
    outcome = measure(phases="cache-fill,cache-hit", options=("--repeats", "2"))
    order = [(run["phase"], run["repeat"], run["caches"]) for run in outcome.results["runs"]]
    spread = outcome.results["figures"]["phases"]["cache-hit"]["answered"]

    assert (outcome.status, order, len(spread["values"])) == (
        0,
        [
            ("cache-fill", 1, "caches/1"),
            ("cache-hit", 1, "caches/1"),
            ("cache-fill", 2, "caches/2"),
            ("cache-hit", 2, "caches/2"),
        ],
        2,
    )


def test_everything_is_kept(measure: Measure) -> None:
    """Log, answers and environment of each server are kept, the environment without secrets."""
    outcome = measure(phases="uncached", options=("--env", "HF_TOKEN=abc", "--env", "PLAIN=x y"))
    run = outcome.folder / "runs" / "1-uncached"
    environment = (run / "environment.json").read_text()

    assert "Initializing a V1 LLM engine" in (run / "server.log").read_text()
    assert '"it is so"' in (run / "responses" / "text.json").read_text()
    assert (
        '"PLAIN": "x y"' in environment,
        '"HF_TOKEN": "(left out)"' in environment,
        '"VLLM_DISABLE_COMPILE_CACHE": "1"' in environment,
    ) == (True, True, True)
    assert (outcome.folder / "report.html").read_text().startswith("<!DOCTYPE html>")
