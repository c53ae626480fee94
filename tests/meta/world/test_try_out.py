# SPDX-License-Identifier: Apache-2.0
"""Subjects that must not be let into the process of a judge."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories.group_scenes import Group, Shape, judge_together
from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.harness.world.try_out import try_out
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

_REWRITE: Final = Path(catalogue.__file__).with_name("rewrite.py").read_text("utf-8")

IN_LOOK_UP: Final = """
_look_up = maybe_apply_startup_plan
def maybe_apply_startup_plan(worker):
    _look_up(worker)
    {}
"""
IN_SAVE: Final = """
_save = maybe_save_startup_plan
def maybe_save_startup_plan(worker, kv_cache_memory_bytes):
    _save(worker, kv_cache_memory_bytes)
    {}
"""
AT_IMPORT: Final = "\n{}\n"

SAID: Final = {
    "exit": ("import os; os._exit(0)", "ended by itself with status 0"),
    "exit 1": ("import os; os._exit(1)", "ended by itself with status 1"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9 (SIGKILL)"),
    "abort": ("import os; os.abort()", "was ended by signal 6 (SIGABRT)"),
    "crash": ("import ctypes; ctypes.string_at(0)", "was ended by signal 11 (SIGSEGV)"),
    "circle": ("while True: pass", "gave no answer within"),
    "stopped": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "gave no answer within"),
    "deaf": (
        "import signal\nfor n in (2, 14, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        "gave no answer within",
    ),
    "waits for input": ("import os, sys; os.read(os.pipe()[0], 1)", "gave no answer within"),
    "flood": (
        "import os\nfor _ in range(100): os.write(1, b'x' * 2**20)",
        "wrote more than 64 MiB",
    ),
    "flood of errors": (
        "import os\nfor _ in range(100): os.write(2, b'x' * 2**20)",
        "wrote more than 64 MiB",
    ),
    "every file": (
        (
            "import os\nfor n in range(3, 256):\n"
            "    try: os.write(n, b'{}\\n')\n    except OSError: pass"
        ),
        "wrote into every open file",
    ),
}
"""What ends, stops or floods a process, and what is said of it; the code stands anywhere."""

REPLACED: Final = {
    "os.replace": "import os; os.replace = lambda *_, **__: None",
    "builtins.open": "import builtins; builtins.open = lambda *_, **__: None",
    "time.sleep": "import time; time.sleep = lambda _: None",
    "json.dumps": "import json; json.dumps = lambda *_, **__: '{}'",
    "pytest.fail": "import pytest; pytest.fail = lambda *_, **__: None",
    "hypothesis.given": "import hypothesis; hypothesis.given = lambda *_, **__: lambda f: None",
    "startup_plan.harness.contract.violation.Violation": (
        "from startup_plan.harness.contract import violation; violation.Violation = ValueError"
    ),
}
"""Functions of the judge's process, and code that replaces them."""

HARMLESS: Final = {
    "prints a little": "print('x' * 100_000)",
    "closes its output": "import sys; sys.stdout.close(); sys.stderr.close()",
    "closes descriptors": "import os; os.closerange(1, 3)",
    "turns off the collector": "import gc; gc.disable()",
    "lowers the limit of recursion": "import sys; sys.setrecursionlimit(200)",
    "another folder": "import os; os.chdir('/')",
    "another umask": "import os; os.umask(0o777)",
    "another locale": "import locale; locale.setlocale(locale.LC_ALL, 'C')",
    "another environment": "import os; os.environ['SOME_VARIABLE'] = 'set by the subject'",
    "signals": "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "an exit hook": "import atexit, os; atexit.register(os._exit, 0)",
    "a thread": (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=False).start()"
    ),
    "a fork": "import os\nif os.fork() == 0: os._exit(0)",
    "a fork that goes on": "import os; os.fork()",
    "a child that stays": (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    ),
    "a child that leaves the session": (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)"
    ),
}
"""What the judge can put right by itself."""


def _written(folder: Path, where: str, code: str) -> str:
    file = folder / "evil.py"
    indented = code if where == AT_IMPORT else code.replace("\n", "\n    ")
    file.write_text(_REWRITE + where.format(indented), "utf-8")
    return str(file)


@pytest.mark.parametrize("where", [AT_IMPORT, IN_LOOK_UP, IN_SAVE], ids=["import", "apply", "save"])
@pytest.mark.parametrize("way", SAID)
def test_a_subject_that_does_not_come_back_is_refused(
    tmp_path: Path, children: Callable[[], set[str]], where: str, way: str
) -> None:
    """Whatever ends, stops or floods its process is told in a sentence, and nothing stays."""
    code, said = SAID[way]
    before = children()
    with pytest.raises(SubjectError) as caught:
        try_out(_written(tmp_path, where, code), seconds=2.0)

    assert said in str(caught.value)
    # Who writes rubbish into the answer goes on meanwhile.
    assert way == "every file" or ("imported it" in str(caught.value)) == (where == AT_IMPORT)
    assert children() == before


@pytest.mark.parametrize("where", [AT_IMPORT, IN_LOOK_UP, IN_SAVE], ids=["import", "apply", "save"])
@pytest.mark.parametrize("name", REPLACED)
def test_a_subject_that_replaces_the_judges_functions_is_refused(
    tmp_path: Path, where: str, name: str
) -> None:
    """A verdict that relies on a function which the subject made is none."""
    with pytest.raises(SubjectError, match=f"it replaces .*{name}"):
        try_out(_written(tmp_path, where, REPLACED[name]))

    assert os.replace.__module__ == "posix"


@pytest.mark.parametrize("where", [AT_IMPORT, IN_LOOK_UP, IN_SAVE], ids=["import", "apply", "save"])
@pytest.mark.parametrize("way", HARMLESS)
def test_what_can_be_put_right_is_no_reason_to_refuse(
    tmp_path: Path, children: Callable[[], set[str]], where: str, way: str
) -> None:
    """Noise, changed settings and processes left behind stay in the process that was tried."""
    file = _written(tmp_path, where, HARMLESS[way])
    before = (children(), Path.cwd(), os.environ.copy(), sys.getrecursionlimit())
    tried = try_out(file)

    assert (tried.name, tried.file) == (file, file)
    after = (children(), Path.cwd(), os.environ.copy(), sys.getrecursionlimit())
    assert after == before


def test_a_subject_that_eats_memory_is_refused(tmp_path: Path) -> None:
    """Memory beyond a bound is not given, and the subject is told for it."""
    file = _written(tmp_path, AT_IMPORT, "hoard = bytearray(2**40)")
    with pytest.raises(SubjectError, match="MemoryError"):
        try_out(file)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(0)", "it exits with 0"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
        ("raise RuntimeError('not today')", "it raises RuntimeError: not today"),
        ("import something_that_is_not_there", "No module named 'something_that_is_not_there'"),
    ],
)
def test_a_subject_that_raises_at_import_is_refused(tmp_path: Path, code: str, said: str) -> None:
    """What a subject raises while it is imported is the reason that is given."""
    with pytest.raises(SubjectError, match=said):
        try_out(_written(tmp_path, AT_IMPORT, code))


OLDER: Final = """
def compute_plan_fingerprint(vllm_config, rank, world_size): return "0" * 16
def maybe_apply_startup_plan(config, cache, device, rank, world_size): pass
def maybe_save_startup_plan(worker, kv_cache_memory_bytes): pass
"""
"""As an older vLLM had it: a look-up that takes its worker to pieces."""

ASKS: Final = {
    "at import": "from vllm.utils import no_such_helper\nno_such_helper()",
    "in the look-up": IN_LOOK_UP.format("import vllm.utils; vllm.utils.no_such_helper"),
    "in the save": IN_SAVE.format("import vllm.utils; vllm.utils.no_such_helper"),
    "on another device": IN_LOOK_UP.format(
        "worker.device.index == 0 or __import__('vllm.utils').utils.no_such_helper"
    ),
    "in a pair": IN_LOOK_UP.format(
        "worker.parallel_config.world_size == 1 or __import__('vllm.utils').utils.no_such_helper"
    ),
}
"""Where a subject may ask for what is not simulated."""


def test_what_takes_something_else_is_no_subject(tmp_path: Path) -> None:
    """A module that vLLM's worker could not call is refused with how it would be called."""
    file = tmp_path / "older.py"
    file.write_text(OLDER)
    with pytest.raises(SubjectError, match=r"cannot be called with \(worker\), as vLLM's worker"):
        try_out(str(file))


def test_what_lacks_a_function_is_no_subject(tmp_path: Path) -> None:
    """A module without one of the three functions is refused, and the function named."""
    file = tmp_path / "half.py"
    file.write_text(OLDER.partition("def maybe_save")[0])
    with pytest.raises(SubjectError, match="it has no function maybe_save_startup_plan"):
        try_out(str(file))


@pytest.mark.parametrize("where", ASKS)
def test_what_asks_beyond_the_simulation_is_refused(tmp_path: Path, where: str) -> None:
    """A name that the stubs do not know is their limit: it is named, and nothing is judged."""
    file = tmp_path / "asks.py"
    file.write_text(f"{_REWRITE}\n{ASKS[where]}\n")
    with pytest.raises(SubjectError, match=r"asks vllm\.utils for 'no_such_helper'"):
        try_out(str(file))


@pytest.mark.parametrize(
    "asked", ["model_config.get_vocab_size()", "model_runner.kv_caches", "get_supported_tasks()"]
)
def test_an_attribute_beyond_the_simulation_is_refused(tmp_path: Path, asked: str) -> None:
    """A look-up that fails for what vLLM's worker has, and the simulated one not, is named so."""
    name = asked.rpartition(".")[2].removesuffix("()")
    with pytest.raises(SubjectError, match=f"asks vLLM's .* for '{name}'"):
        try_out(_written(tmp_path, IN_LOOK_UP, f"worker.{asked}"))


def test_what_can_do_without_is_judged(tmp_path: Path) -> None:
    """A subject that asks for what is not there and has another way is a subject like any other."""
    code = "import vllm.utils\ngetattr(vllm.utils, 'no_such_helper', None)"
    tried = try_out(_written(tmp_path, IN_LOOK_UP, code))

    assert ["no_such_helper" in sentence for sentence in tried.does_without] == [True]


GATHERED: Final = (
    "        dist.all_gather(everyone, mine, group=group, async_op=True).wait(patience)\n"
)
"""Where the rewrite's ranks learn what all of them have."""

BROADCAST: Final = """
        first = dist.get_rank(group) == 0
        dist.gather(mine, everyone if first else None, dst=0, group=group)
        agreed = [min(int(ballot) for ballot in everyone) if first else None]
        dist.broadcast_object_list(agreed, src=0, group=group)
        everyone = [torch.tensor(agreed[0]) for _ in everyone]
"""
WAITING: Final = """
        if dist.get_rank(group) == 0:
            dist.barrier(group=group)
"""


@pytest.mark.parametrize("vote", [BROADCAST, WAITING], ids=["broadcast", "hang"])
def test_ranks_meet_before_anybody_is_refused(tmp_path: Path, vote: str) -> None:
    """A decision that rank 0 broadcasts is answered, and a pair that hangs is for GROUP-01."""
    file = tmp_path / "votes.py"
    assert _REWRITE.count(GATHERED) == 1
    file.write_text(_REWRITE.replace(GATHERED, vote))
    tried = try_out(str(file))

    assert (tried.file, tried.does_without) == (str(file), [])


def test_ranks_of_the_pair_that_wait_for_ever_are_judged(tmp_path: Path) -> None:
    """What hangs in the try-out is found by a group that boots, as waiting for ever."""
    file = tmp_path / "waits.py"
    file.write_text(_REWRITE.replace(GATHERED, WAITING))
    with World(load_subject(str(file)), tmp_path / "disk") as world:
        results = Group(world, Shape(tensor=2)).boot()

        with pytest.raises(Violation, match="the group hangs"):
            judge_together(world, results, "GROUP-01")
