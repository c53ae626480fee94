# SPDX-License-Identifier: Apache-2.0
"""Nothing that a subject keeps in its modules reaches the next simulated process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from tests.idle_plan import IDLE_PLAN

from startup_plan.harness.stubs import modules as stub_modules
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate, active
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.zoo.seed import REWRITE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Each keeps a count somewhere; `seen()` gives how often it was called before in this process.
_STATES: Final = {
    "global-bound-again": """
        count = 0
        def seen():
            global count
            count += 1
            return count - 1
        """,
    "global-that-was-not-there": """
        def seen():
            globals()["count"] = globals().get("count", 0) + 1
            return globals()["count"] - 1
        """,
    "global-deleted": """
        first, second = 1, 2
        def seen():
            if "first" in globals():
                del globals()["first"]
                return 0
            return 1
        """,
    "dict": """
        kept = {}
        def seen():
            kept[len(kept)] = True
            return len(kept) - 1
        """,
    "list": """
        kept = []
        def seen():
            kept.append(1)
            return len(kept) - 1
        """,
    "set": """
        kept = set()
        def seen():
            kept.add(len(kept))
            return len(kept) - 1
        """,
    "list-in-a-tuple": """
        kept = ("name", ([],))
        def seen():
            kept[1][0].append(1)
            return len(kept[1][0]) - 1
        """,
    "list-in-a-dict": """
        kept = {"calls": []}
        def seen():
            kept["calls"].append(1)
            return len(kept["calls"]) - 1
        """,
    "order-of-a-dict": """
        kept = {"old": 1, "new": 2}
        def seen():
            moved = next(iter(kept)) != "old"
            kept["old"] = kept.pop("old")
            return int(moved)
        """,
    "type-in-a-dict": """
        kept = {"looked": 0}
        def seen():
            looked, kept["looked"] = kept["looked"], False
            return int(looked is False)
        """,
    "lru-cache": """
        import functools
        @functools.lru_cache
        def calls():
            return []
        def seen():
            calls().append(1)
            return len(calls()) - 1
        """,
    "cache-of-a-method": """
        import functools
        class Plan:
            @functools.cache
            def calls(self):
                return []
            @staticmethod
            @functools.cache
            def calls_of_all():
                return []
        def seen():
            Plan.calls_of_all().append(1)
            return len(Plan.calls_of_all()) - 1
        """,
    "function-attribute": """
        def seen():
            seen.count = getattr(seen, "count", 0) + 1
            return seen.count - 1
        """,
    "function-attribute-set-at-import": """
        def seen():
            seen.count += 1
            return seen.count - 1
        seen.count = 0
        """,
    "attribute-of-a-method": """
        class Plan:
            def find(self):
                return None
        def seen():
            Plan.find.count = getattr(Plan.find, "count", 0) + 1
            return Plan.find.count - 1
        """,
    "mutable-default": """
        def seen(kept=[]):
            kept.append(1)
            return len(kept) - 1
        """,
    "mutable-keyword-default": """
        def seen(*, kept={}):
            kept[len(kept)] = True
            return len(kept) - 1
        """,
    "mutable-default-of-a-static-method": """
        class Plan:
            @staticmethod
            def calls(kept=[]):
                kept.append(1)
                return len(kept) - 1
        def seen():
            return Plan.calls()
        """,
    "mutable-default-of-a-property": """
        def calls(self, kept=[]):
            kept.append(1)
            return len(kept) - 1
        class Plan:
            calls = property(calls)
        del calls
        def seen():
            return Plan().calls
        """,
    "class-attribute": """
        class Plan:
            count = 0
        def seen():
            Plan.count += 1
            return Plan.count - 1
        """,
    "list-in-a-class": """
        class Plan:
            class Inner:
                kept = []
        def seen():
            Plan.Inner.kept.append(1)
            return len(Plan.Inner.kept) - 1
        """,
    "attribute-of-a-base-class": """
        def base():
            class Base:
                count = 0
            return Base
        class Plan(base()):
            pass
        def seen():
            base = Plan.__mro__[1]
            base.count += 1
            return base.count - 1
        """,
    "attribute-of-a-metaclass": """
        def made_by():
            class Meta(type):
                count = 0
            return Meta
        class Plan(metaclass=made_by()):
            pass
        def seen():
            type(Plan).count += 1
            return type(Plan).count - 1
        """,
    "class-in-a-list": """
        class Plan:
            count = 0
        kept = [Plan]
        del Plan
        def seen():
            kept[0].count += 1
            return kept[0].count - 1
        """,
    "closure": """
        def made():
            count = 0
            def seen():
                nonlocal count
                count += 1
                return count - 1
            return seen
        seen = made()
        """,
    "decorated-function": """
        import functools
        def counted(function):
            calls = []
            @functools.wraps(function)
            def call():
                calls.append(1)
                return len(calls) - 1
            return call
        @counted
        def seen():
            pass
        """,
    "instance": """
        class Plan:
            def __init__(self):
                self.count = 0
        plan = Plan()
        def seen():
            plan.count += 1
            return plan.count - 1
        """,
    "instance-of-a-data-class": """
        import dataclasses
        @dataclasses.dataclass
        class Plan:
            count: int = 0
        plan = Plan()
        def seen():
            plan.count += 1
            return plan.count - 1
        """,
    "member-of-an-enum": """
        import enum
        class State(enum.Enum):
            NEW = 1
        def seen():
            State.NEW.count = getattr(State.NEW, "count", 0) + 1
            return State.NEW.count - 1
        """,
    "bound-method": """
        class Plan:
            def __init__(self):
                self.count = 0
            def seen(self):
                self.count += 1
                return self.count - 1
        seen = Plan().seen
        """,
    "partial": """
        import functools
        def calls(kept):
            kept.append(1)
            return len(kept) - 1
        seen = functools.partial(calls, [])
        """,
    "counter-of-collections": """
        import collections
        kept = collections.Counter()
        def seen():
            kept["calls"] += 1
            return kept["calls"] - 1
        """,
    "deque": """
        import collections
        kept = collections.deque()
        def seen():
            kept.append(1)
            return len(kept) - 1
        """,
    "byte-array": """
        kept = bytearray()
        def seen():
            kept.append(1)
            return len(kept) - 1
        """,
    "iterator": """
        import itertools
        numbers = itertools.count()
        def seen():
            return next(numbers)
        """,
    "generator": """
        def count():
            number = 0
            while True:
                yield number
                number += 1
        numbers = count()
        def seen():
            return next(numbers)
        """,
    "thread-local": """
        import threading
        kept = threading.local()
        def seen():
            kept.count = getattr(kept, "count", 0) + 1
            return kept.count - 1
        """,
    "context-variable": """
        import contextvars
        kept = contextvars.ContextVar("kept", default=0)
        def seen():
            count = kept.get()
            kept.set(count + 1)
            return count
        """,
    "name-space": """
        import types
        kept = types.SimpleNamespace(count=0)
        def seen():
            kept.count += 1
            return kept.count - 1
        """,
    "simulated-object": """
        from vllm.utils.mem_utils import MemorySnapshot
        kept = MemorySnapshot(auto_measure=False)
        def seen():
            kept.free_memory += 1
            return kept.free_memory - 1
        """,
}

_STATELESS: Final = """
import functools, re
from typing import Final
import torch
from vllm.logger import init_logger
from vllm.platforms import current_platform

logger = init_logger(__name__)
PATTERN: Final = re.compile("plan")
TABLE: Final = {"a": ["b"], "c": {1, 2}}
NAMES: Final = ("a", frozenset("b"))

class Plan:
    __slots__ = ("size",)
    kind = "plan"
    def __init__(self, size: int = 1) -> None:
        self.size = size
    @property
    def double(self) -> int:
        return 2 * self.size
    @classmethod
    def make(cls) -> "Plan":
        return cls()

@functools.cache
def known() -> str:
    return "known"
"""


@contextmanager
def simulated_process() -> Iterator[None]:
    """Stubs installed, and something for them to answer from."""
    activate(Simulation([Device()], Runtime()))
    try:
        with stub_modules.installed():
            yield
    finally:
        activate(None)


def write(folder: Path, source: str) -> str:
    """Write a subject; give its path."""
    file = folder / "plan.py"
    lines = source.splitlines()
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    file.write_text("\n".join(line[margin:] for line in lines) + IDLE_PLAN)
    return str(file)


@pytest.mark.parametrize("state", [pytest.param(text, id=name) for name, text in _STATES.items()])
def test_state_ends_with_the_process(tmp_path: Path, state: str) -> None:
    """What a subject counts, wherever it keeps the count, begins at nothing in each process."""
    subject = load_subject(write(tmp_path, state))
    counts = []
    with subject.out_of_the_way(), simulated_process():
        for _ in range(3):
            module = subject.fresh()
            counts.append([module.seen(), module.seen()])

    assert counts == [[0, 1]] * 3


def test_state_in_another_module_of_the_package_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count in a module that the subject imports from its own package is forgotten as well."""
    package = tmp_path / "fresh_package"
    package.mkdir()
    (package / "memory.py").write_text("kept = []\n")
    (package / "__init__.py").write_text(
        "from . import memory\n"
        "def seen():\n"
        "    from .memory import kept\n"
        "    kept.append(1)\n"
        "    return len(memory.kept) - 1\n" + IDLE_PLAN
    )
    monkeypatch.syspath_prepend(tmp_path)
    subject = load_subject("fresh_package")
    counts = []
    with subject.out_of_the_way(), simulated_process():
        for _ in range(3):
            module = subject.fresh()
            counts.append([module.seen(), module.seen()])

    assert counts == [[0, 1]] * 3


def test_another_schema_ends_with_the_process(tmp_path: Path) -> None:
    """The schema version that a test gave one process is not that of the next."""
    subject = load_subject(write(tmp_path, "PLAN_SCHEMA_VERSION = 1\n"))
    schemas = []
    with subject.out_of_the_way(), simulated_process():
        for _ in range(2):
            module = subject.fresh()
            schemas.append(module.PLAN_SCHEMA_VERSION)
            schemas.append(subject.fresh_as(7).PLAN_SCHEMA_VERSION)

    assert schemas == [1, 7, 1, 7]


def test_what_holds_no_state_is_not_executed_again(tmp_path: Path) -> None:
    """Modules of constants, functions and classes are used again, which is what makes boots quick.

    Without this every simulated boot would execute the subject, and the tests of this file would
    say nothing about how a change is found.
    """
    subject = load_subject(write(tmp_path, _STATELESS))
    with subject.out_of_the_way(), simulated_process():
        modules = []
        for _ in range(3):
            modules.append(subject.fresh())
            modules[-1].known()

    assert modules == [modules[0]] * 3


@pytest.mark.parametrize("name", ["reference", str(REWRITE)], ids=["reference", "rewrite"])
def test_both_correct_plans_are_not_executed_again(name: str) -> None:
    """The reference and the rewrite, with which most boots are simulated, hold no state."""
    subject = load_subject(name)
    with subject.out_of_the_way(), simulated_process():
        modules = [subject.fresh() for _ in range(3)]

    assert modules == [modules[0]] * 3


# Each reads something when it is imported, and `seen` is what it read.
_READ_AT_IMPORT: Final = {
    "variable": "import os\nseen = os.environ.get('SOME_SETTING')\n",
    "variable-of-vllm": "from vllm import envs\nseen = envs.VLLM_CACHE_ROOT\n",
    "all-variables": "import os\nseen = dict(os.environ)\n",
    "home": "import os\nseen = os.path.expanduser('~')\n",
    "folder": "import os\nseen = os.getcwd()\n",
    "umask": "import os\nseen = os.umask(0o22)\nos.umask(seen)\n",
    "group": "import os\nseen = os.getegid()\n",
    "device": (
        "from vllm.platforms import current_platform\nseen = current_platform.get_device_name(0)\n"
    ),
    "runtime": "from vllm import __version__ as seen\n",
}


def change_all(simulation: Simulation, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Be another process, on another host."""
    monkeypatch.setenv("SOME_SETTING", "other")
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/other")
    monkeypatch.setenv("HOME", "/other")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("os.getegid", lambda: 12345)
    simulation.devices[0].name = "Other"
    simulation.runtime.vllm = "1.2.3"


@pytest.mark.parametrize("source", _READ_AT_IMPORT.values(), ids=_READ_AT_IMPORT)
def test_what_was_read_at_import_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """A process whose environment, folder, user or host is another has modules that say so."""
    umask = os.umask(0o22)
    os.umask(0o22)
    subject = load_subject(write(tmp_path, source))
    seen = []
    with subject.out_of_the_way(), simulated_process():
        seen += [subject.fresh().seen, subject.fresh().seen]
        change_all(active(), monkeypatch, tmp_path)
        os.umask(0o77)
        seen.append(subject.fresh().seen)
        os.umask(umask)

    assert seen[0] == seen[1]
    assert seen[1] != seen[2]


@pytest.mark.parametrize(
    "expression",
    [
        "time.time_ns()",
        "os.urandom(8)",
        "random.random()",
        "uuid.uuid4()",
        "datetime.datetime.now()",
        "pathlib.Path(__file__).read_text()",
        "os.stat(__file__)",
        "logging.getLogger('vllm').warning('imported')",
        "os.environ.update(SOME_SETTING='set')",
        "init_logger('x').info('imported')",
    ],
)
def test_what_no_execution_repeats_is_done_by_each(tmp_path: Path, expression: str) -> None:
    """What asks the clock, chance or the disk, logs, or sets a variable is executed each time."""
    source = (
        "import datetime, logging, os, pathlib, random, time, uuid\n"
        f"from vllm.logger import init_logger\nseen = {expression}\n"
    )
    subject = load_subject(write(tmp_path, source))
    with subject.out_of_the_way(), simulated_process():
        modules = [subject.fresh() for _ in range(3)]

    assert len({id(module) for module in modules}) == 3


def test_only_what_was_read_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that read nothing of what is different now are used again."""
    subject = load_subject(write(tmp_path, "import os\nseen = os.environ.get('SOME_SETTING')\n"))
    with subject.out_of_the_way(), simulated_process():
        first = subject.fresh()
        monkeypatch.setenv("OTHER_SETTING", "other")
        active().runtime.vllm = "1.2.3"
        second = subject.fresh()

    assert second is first
