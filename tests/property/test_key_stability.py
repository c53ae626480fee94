# SPDX-License-Identifier: Apache-2.0
"""Equal inputs give an equal key, whatever process asks and however the inputs are written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import UndecidedError, Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.harness.world.subject_name import SubjectName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_PROCESSES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "variables": {"PYTHONHASHSEED": "1"},
        "options": {
            "backwards": True,
            "settings": {"instance_id": "1761000000000000001"},
            "environ": {"VLLM_PORT": "5555", "HOSTNAME": "pod-1", "POD_NAME": "pod-1"},
        },
    },
    {
        "variables": {"PYTHONHASHSEED": "2"},
        "options": {
            "backwards": False,
            "settings": {"instance_id": "1761000000000000002"},
            "environ": {"POD_NAME": "pod-2", "HOSTNAME": "pod-2", "VLLM_PORT": "6666"},
        },
    },
)
_SECONDS: Final = 60


def _differ(found: Sequence[tuple[str, str]], what: str) -> None:
    odd = keys.odd_one(found)
    if odd is not None:
        first, second = odd
        raise Violation("KEY-13", f"{what}: {first} and {second} look for different plans")


@pytest.mark.requirement("KEY-13")
def test_the_same_process_asks_again(world: World, tally: Tally) -> None:
    """An engine that boots a second and a third time looks for the same plan."""
    engines = {"the usual engine": Engine(), "an engine full of settings": keys.ordered_engine()}
    for name, engine in engines.items():
        found = [(f"boot {i}", keys.sure_key(world, engine)) for i in range(3)]
        tally(boots=3)

        _differ(found, name)


def _start(
    world: World, case: Mapping[str, Any], make: Callable[[], Path]
) -> subprocess.Popen[str]:
    name = world.subject.name
    environ = {
        # In the order of the case: the environment itself is in another order in each process.
        **case["variables"],
        **{key: text for key, text in os.environ.items() if key not in case["variables"]},
        # A dotted name may be that of a folder here.
        "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, sys.path)]),
    }
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            keys.__name__,
            str(SubjectName.parse(name).anywhere()),
            str(make()),
            json.dumps(case["options"]),
        ],
        cwd=make(),
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _key_from(process: subprocess.Popen[str]) -> str:
    try:
        out, err = process.communicate(timeout=_SECONDS)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        last = err.strip().splitlines()[-1:]
        raise UndecidedError(f"a new process could not ask for its key: {last}")
    answer = json.loads(out.splitlines()[-1])
    if answer["key"] is None:
        raise Violation("KEY-13", f"a new process saved no plan: {answer['boot']}")
    return str(answer["key"])


@pytest.mark.requirement("KEY-13")
def test_new_processes_look_for_the_same_plan(
    world: World, fresh_folder: Callable[[], Path], tally: Tally
) -> None:
    """Another hash seed, folder, environment order, port, instance id or pod name is nothing."""
    cases = _PROCESSES if profiles.is_thorough() else _PROCESSES[:1]
    running = [_start(world, case, fresh_folder) for case in cases]
    here = keys.sure_key(world, keys.ordered_engine())
    found = [("this process", here)]
    for number, process in enumerate(running, 1):
        told = f"new process {number} (hash seed, folder, port, instance id and pod name differ)"
        found.append((told, _key_from(process)))
    tally(boots=len(found))

    _differ(found, "one engine, booted in several processes")


@pytest.mark.requirement("KEY-13")
@pytest.mark.parametrize("path", keys.PROCESS_LOCAL)
def test_what_every_start_chooses_anew_is_not_in_the_key(
    world: World, tally: Tally, path: str
) -> None:
    """Instance and engine ids and free ports differ at each start and change nothing."""
    setting = stub_configs.setting(path)
    found = []
    for value in (setting.default, *setting.alternates):
        engine = Engine()
        engine.set(path, value)
        found.append((f"{path} {value!r}", keys.sure_key(world, engine)))
    tally(boots=len(found))

    _differ(found, "two starts of one engine")


@pytest.mark.requirement("KEY-13")
def test_the_working_directory_is_not_in_the_key(
    world: World, fresh_folder: Callable[[], Path], tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts in another folder looks for the same plan."""
    found = []
    for number in (1, 2):
        monkeypatch.chdir(fresh_folder())
        found.append((f"folder {number}", keys.sure_key(world, Engine())))
    tally(boots=2)

    _differ(found, "one engine, started in two folders")


@pytest.mark.requirement("KEY-13")
def test_the_order_of_factors_is_not_in_the_key(world: World, tally: Tally) -> None:
    """Mappings, sets and the environment give one key in whatever order they were filled."""
    found = [
        ("forwards", keys.sure_key(world, keys.ordered_engine())),
        ("backwards", keys.sure_key(world, keys.ordered_engine(backwards=True))),
    ]
    tally(boots=2)

    _differ(found, "mappings, sets and variables, filled forwards and backwards")


@pytest.mark.requirement("KEY-13")
def test_the_order_of_a_set_is_not_in_the_key(world: World, tally: Tally) -> None:
    """Two equal sets that are walked in different orders give one key."""
    # Two that fall into one slot of a small set: the first to come is the first to be found.
    names = [f"layer{number}" for number in range(64)]
    one = names[0]
    other = next(name for name in names[1:] if (hash(name) - hash(one)) % 8 == 0)
    found = []
    for order in ((one, other), (other, one)):
        engine = Engine()
        engine.config.offload_config.uva.cpu_offload_params = members = set()
        for member in order:
            members.add(member)
        engine.hash_override = keys.SAME_HASH
        found.append((f"a set filled with {order}", keys.sure_key(world, engine)))
    tally(boots=2)

    _differ(found, "offload_config.uva.cpu_offload_params")


@pytest.mark.requirement("KEY-13")
@pytest.mark.parametrize(
    "spellings", [("0.9", "0.90", "9e-1", ".9"), ("1", "1.0", "1e0", "1.")], ids=["0.9", "1"]
)
def test_the_spelling_of_the_utilization_is_not_in_the_key(
    world: World, tally: Tally, monkeypatch: pytest.MonkeyPatch, spellings: tuple[str, ...]
) -> None:
    """`0.9` and `0.90` are one utilization, and so are `1` and `1.0`, wherever they are written.

    A configuration holds the same number for each; the command line still has the text.
    """
    world.devices[0].context = 0
    found = []
    for text in spellings:
        command = ["vllm", "serve", "Qwen/Qwen3-0.6B", "--gpu-memory-utilization", text]
        monkeypatch.setattr(sys, "argv", command)
        engine = Engine()
        engine.set(UTILIZATION, int(text) if text.isdecimal() else float(text))
        found.append((f"utilization {text}", keys.sure_key(world, engine)))
    tally(boots=len(found))

    _differ(found, "one engine, its budget written twice")
