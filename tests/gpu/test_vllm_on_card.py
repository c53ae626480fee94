# SPDX-License-Identifier: Apache-2.0
"""The published validation on a real card: five starts of real vLLM, eager and compiled.

The utilization goes 0.8, 0.8, 0.35, 0.35, 0.8, once with the module that vLLM ships and once with
the drop-in. Each start is a test of its own, because it takes half a minute; those after it
compare. No requirement is tied to these tests: the subject under test is not in them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import pytest

from startup_plan.harness.cards.processes import nvidia_smi
from startup_plan.harness.real_vllm import tiny_models
from startup_plan.harness.real_vllm.api_server import ApiServer
from startup_plan.harness.stubs.units import GIB

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.vllm,
    pytest.mark.xdist_group("gpu"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

BUDGETS: Final = (0.8, 0.8, 0.35, 0.35, 0.8)
MODES: Final = {"eager": ("--enforce-eager",), "compiled": ()}
PLANS: Final = {"shipped": "0", "drop-in": "1"}
EXPLICIT: Final = 2 * GIB

_APPLIED: Final = re.compile(r"Startup plan: applied |Applying persisted startup plan")
_IN_USE: Final = re.compile(r"startup-plan .*: in use instead of the startup plan of vLLM")
_TOKENS: Final = re.compile(r"KV cache size: ([\d,]+) tokens")
_LOADED: Final = re.compile(r"Directly load")
_QUESTIONS: Final = ("Which plan?", "How much memory is left for the cache of keys and values?")

each_series = pytest.mark.parametrize("mode", MODES)
each_plan = pytest.mark.parametrize("plan", PLANS)


class Start(NamedTuple):
    """What one start did.

    Attributes:
        applied: whether its log says that a plan was applied.
        tokens: size of the KV cache in tokens.
        answers: token ids of each prompt and of its greedy completion.
        plans: path of each plan file after it, and its content.
        compiled: every file of the compile cache after it.
        loaded: how often its log says that something compiled was loaded.
        used: bytes of the card in use while it served, None where nobody says.
        dropped_in: whether the drop-in says that it is in use.
    """

    applied: bool
    tokens: int
    answers: list[list[list[int]]]
    plans: dict[str, bytes]
    compiled: frozenset[str]
    loaded: int
    used: int | None
    dropped_in: bool


@final
class Series:
    """Starts of one model, each series with a cache root of its own."""

    def __init__(self, folder: Path) -> None:
        """Make the model."""
        self._folder = folder
        self._model = tiny_models.make("llama", folder / "model", weights=True)
        self.starts: dict[tuple[str, str, int], Start] = {}

    def start(self, plan: str, mode: str, utilization: float, *more: str) -> Start:
        """Start an engine, ask it the questions, and end it."""
        root = self._folder / f"{plan}-{mode}"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("VLLM_", "STARTUP_PLAN_"))
        }
        environment |= {
            "STARTUP_PLAN_PLUGIN": PLANS[plan],
            "VLLM_ENABLE_STARTUP_PLAN": "1",
            "VLLM_CACHE_ROOT": os.fspath(root),
        }
        options = {
            "--model": os.fspath(self._model),
            "--served-model-name": "tiny",
            "--dtype": "bfloat16",
            "--max-model-len": "256",
            "--max-num-seqs": "8",
            "--gpu-memory-utilization": str(utilization),
        }
        words = [word for option in options.items() for word in option]
        log = self._folder / "log"
        with ApiServer([*words, *MODES[mode], *more], log, environment) as server:
            answers = [_answer(server, question) for question in _QUESTIONS]
            used, said = nvidia_smi(0), server.log()
        tokens = _TOKENS.search(said)
        return Start(
            _APPLIED.search(said) is not None,
            int(tokens[1].replace(",", "")) if tokens else 0,
            answers,
            {os.fspath(p): p.read_bytes() for p in sorted(root.glob("startup_plan/*.json"))},
            frozenset(
                os.path.relpath(p, root)
                for p in root.glob("torch_compile_cache/**/*")
                if p.is_file() and p.suffix != ".lock"
            ),
            len(_LOADED.findall(said)),
            used,
            _IN_USE.search(said) is not None,
        )

    def five(self, plan: str, mode: str) -> list[Start]:
        """The five starts of a series; a skip if one of them did not come to its end."""
        keys = [(plan, mode, number) for number in range(len(BUDGETS))]
        if missing := [number for _, _, number in keys if (plan, mode, number) not in self.starts]:
            pytest.skip(f"start {missing[0] + 1} of {plan}, {mode} did not come to its end")
        return [self.starts[key] for key in keys]


def _answer(server: ApiServer, question: str) -> list[list[int]]:
    body: dict[str, Any] = {
        "model": "tiny",
        "prompt": question,
        "temperature": 0,
        "max_tokens": 16,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    choice = server.ask("/v1/completions", body)["choices"][0]
    return [choice["prompt_token_ids"], choice["token_ids"]]


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """All starts of this file."""
    return Series(tmp_path_factory.mktemp("vllm-on-card"))


@pytest.mark.parametrize("number", range(len(BUDGETS)))
@each_series
@each_plan
def test_start(series: Series, plan: str, mode: str, number: int) -> None:
    """Each start comes to serve, with the plan module that was asked for."""
    start = series.start(plan, mode, BUDGETS[number])
    series.starts[plan, mode, number] = start

    assert (start.tokens > 0, start.dropped_in) == (True, plan == "drop-in")


@each_series
@each_plan
def test_same_budget_applies(series: Series, plan: str, mode: str) -> None:
    """The second start of a budget applies what its first start saved."""
    starts = series.five(plan, mode)

    assert (starts[0].applied, starts[1].applied, starts[3].applied) == (False, True, True)


@each_series
def test_lowered_budget_is_measured_and_kept(series: Series, mode: str) -> None:
    """With the drop-in a lowered budget is measured; raised back, the first plan applies."""
    starts = series.five("drop-in", mode)

    assert [start.applied for start in starts] == [False, True, False, True, True]
    assert [len(start.plans) for start in starts] == [1, 1, 2, 2, 2]
    assert starts[4].tokens == starts[1].tokens
    assert starts[2].tokens < starts[0].tokens
    if starts[0].used is not None and starts[2].used is not None:
        assert starts[2].used < starts[0].used


@each_series
@each_plan
def test_tokens_are_the_same(series: Series, plan: str, mode: str) -> None:
    """Over one budget every request has the same prompt ids and the same output ids."""
    starts = series.five(plan, mode)
    high, low = [starts[n].answers for n in (0, 1, 4)], [starts[n].answers for n in (2, 3)]

    assert (high, low) == ([high[0]] * 3, [low[0]] * 2)
    assert all(len(output) == 16 for start in starts for _, output in start.answers)


@each_plan
def test_what_was_compiled_is_reused(series: Series, plan: str) -> None:
    """A start that applies a plan of the same budget loads what was compiled, and adds nothing."""
    starts = series.five(plan, "compiled")

    assert starts[0].compiled
    assert starts[1].compiled == starts[0].compiled
    assert starts[1].loaded > 0


@each_series
@each_plan
def test_an_explicit_size_bypasses_the_plan(series: Series, plan: str, mode: str) -> None:
    """With 2 GiB set, no plan is applied or saved, and those that are there stay as they are."""
    before = series.five(plan, mode)[-1]
    explicit = series.start(plan, mode, 0.8, "--kv-cache-memory-bytes", str(EXPLICIT))

    assert (explicit.applied, explicit.plans) == (False, before.plans)
    assert 0 < explicit.tokens < before.tokens
