# SPDX-License-Identifier: Apache-2.0
"""Three boots of a real vLLM engine on CPU, with the drop-in: the plan at work, end to end.

Each boot is a real API server, engine core and worker, three processes, with a tiny model. vLLM's
own CPU worker has no startup plan, so the engine is given one that has (`plan_worker.py`). It
measures what vLLM measures there, resident memory included, so no two boots measure alike.
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from startup_plan.harness.real_vllm import tiny_models
from startup_plan.harness.real_vllm.api_server import ApiServer, members
from startup_plan.harness.session.once import once

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

_HERE: Final = Path(__file__).parent
_GIB: Final = 1 << 30
_TOTAL: Final = 10 * _GIB
_FREE: Final = 9 * _GIB
_USUAL: Final = "0.15"
_LOWERED: Final = "0.12"
_QUESTION: Final = "Which plan?"
_SAID: Final = re.compile(
    r"^.*startup-plan .*: in use instead of the startup plan of vLLM.*$", re.MULTILINE
)


class Boot(NamedTuple):
    """What one boot of the engine did. Sizes in bytes.

    Attributes:
        facts: what the worker noted when it knew its memory.
        answers: token ids of a prompt and of its completion, in two ways of asking.
        log: what its processes printed.
        plans: names of the plan files after it.
        compiled: names of the folders of compiled graphs after it.
        api_server: process id of the API server.
        survivors: processes that were alive after its end.
    """

    facts: dict[str, Any]
    answers: list[list[list[int]]]
    log: str
    plans: list[str]
    compiled: list[str]
    api_server: int
    survivors: list[int]


def _boot(model: Path, root: Path, number: int, utilization: str) -> Boot:
    """Boot an engine, ask it two questions and end it."""
    # Any variable may be a factor of the key, so none is different at another boot.
    cache, record = root / "cache", root / "record"
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "STARTUP_PLAN_"))
    }
    environment |= {
        "STARTUP_PLAN_PLUGIN": "1",
        "VLLM_ENABLE_STARTUP_PLAN": "1",
        "VLLM_CACHE_ROOT": os.fspath(cache),
        "PYTHONHASHSEED": str(number),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_HERE), environment.get("PYTHONPATH")])),
        "PLAN_WORKER_RECORD": os.fspath(record),
        "PLAN_WORKER_FREE_BYTES": str(_FREE),
        "PLAN_WORKER_TOTAL_BYTES": str(_TOTAL),
    }
    options = {
        "--model": os.fspath(model),
        "--served-model-name": "tiny",
        "--worker-cls": "plan_worker.PlanWorker",
        "--distributed-executor-backend": "mp",
        "--dtype": "float32",
        "--max-model-len": "256",
        "--max-num-seqs": "4",
        "--gpu-memory-utilization": utilization,
    }
    arguments = [word for option in options.items() for word in option]
    with ApiServer(arguments, root / f"log-{number}", environment) as server:
        answers = _answers(server)
    facts = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    assert len(facts) == number, facts
    return Boot(
        facts[-1],
        answers,
        server.log(),
        _names(cache / "startup_plan"),
        _names(cache / "torch_compile_cache" / "torch_aot_compile"),
        server.pid,
        members(server.pid),
    )


def _answers(server: ApiServer) -> list[list[list[int]]]:
    greedy: Mapping[str, Any] = {
        "model": "tiny",
        "temperature": 0,
        "max_tokens": 16,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    text = server.ask("/v1/completions", {**greedy, "prompt": _QUESTION})["choices"][0]
    chat = server.ask(
        "/v1/chat/completions", {**greedy, "messages": [{"role": "user", "content": _QUESTION}]}
    )
    return [
        [text["prompt_token_ids"], text["token_ids"]],
        [chat["prompt_token_ids"], chat["choices"][0]["token_ids"]],
    ]


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def _three_boots(root: Path) -> list[Boot]:
    model = tiny_models.make("llama", root / "model", weights=True)
    budgets = (_USUAL, _USUAL, _LOWERED)
    return [_boot(model, root, number, budget) for number, budget in enumerate(budgets, 1)]


@pytest.fixture(scope="module")
def boots(tmp_path_factory: pytest.TempPathFactory) -> list[Boot]:
    """One boot, the same again, and one with a lowered budget; each with its own hash seed."""
    make = partial(_three_boots, tmp_path_factory.mktemp("engine"))
    return [Boot(*facts) for facts in once("engine-boots", make, tmp_path_factory)]


def test_first_boot_measures_and_saves(boots: list[Boot]) -> None:
    """An engine without a plan measures, within its budget, and leaves one plan."""
    first = boots[0]
    size = first.facts["size"]

    assert (first.facts["applied"], len(first.plans), 0 < size < 0.15 * _TOTAL) == (None, 1, True)


def test_second_boot_applies_what_the_first_measured(boots: list[Boot]) -> None:
    """The same engine in new processes, with another hash seed, finds the plan and applies it."""
    first, second, _ = boots

    assert second.facts["applied"] == second.facts["size"] == first.facts["size"]
    assert (second.plans, second.facts["hash_seed"]) == (first.plans, "2")


def test_lowered_budget_is_measured_again(boots: list[Boot]) -> None:
    """An engine whose budget was lowered does not apply the plan of the larger one."""
    first, _, third = boots
    fits = 0 < third.facts["size"] < min(0.12 * _TOTAL, first.facts["size"])

    assert (third.facts["applied"], fits) == (None, True)
    assert (len(third.plans), set(third.plans) > set(first.plans)) == (2, True)


def test_tokens_are_the_same(boots: list[Boot]) -> None:
    """A question has the same tokens and the same greedy answer with a plan and without."""
    first, second, _ = boots

    assert first.answers == second.answers
    assert [len(answer) for _, answer in first.answers] == [16, 16]


def test_compiled_graphs_keep_their_key(boots: list[Boot]) -> None:
    """Applying a plan leaves the configuration's hash, and the place of what was compiled."""
    hashes = {boot.facts[when] for boot in boots for when in ("hash_before", "hash_after")}

    assert (len(hashes), len(boots[0].compiled)) == (1, 1)
    assert boots[0].compiled == boots[1].compiled == boots[2].compiled


def test_drop_in_runs_in_every_process(boots: list[Boot]) -> None:
    """API server, engine core and worker each say in one line that the drop-in is in use."""
    for boot in boots:
        processes = {boot.api_server, boot.facts["parent"], boot.facts["pid"]}

        assert (len(processes), len(_SAID.findall(boot.log))) == (3, 3)
        assert boot.facts["plan"] == "startup_plan.reference.worker"


def test_nothing_outlives_an_engine(boots: list[Boot]) -> None:
    """An engine that was ended leaves no process behind."""
    assert [boot.survivors for boot in boots] == [[], [], []]
