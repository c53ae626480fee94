# SPDX-License-Identifier: Apache-2.0
"""Code that was written elsewhere: its own modules, its names, and what it stands on."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.cli import main as cli
from startup_plan.harness.world.another_process import boot_elsewhere
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.harness.world.subject_name import SubjectName
from startup_plan.harness.world.try_out import try_out
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo.seed import REWRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.meta.conftest import MiniSuite

ADAPTERS: Final = Path(__file__).parents[3] / "docs" / "adapters"
_SHIPPED: Final = "vllm/v1/worker/startup_plan.py"
_REWRITE: Final = REWRITE.read_text("utf-8")

_PLAN: Final = """
def compute_plan_fingerprint(vllm_config, rank, world_size):
    return "0" * 16

def maybe_apply_startup_plan(worker):
    worker.cache_config.kv_cache_memory_bytes = size()

def maybe_save_startup_plan(worker, kv_cache_memory_bytes):
    pass
"""
"""A plan that always applies what `size()` says."""

_TOP: Final = "from {0} import size\n" + _PLAN
_MIDST: Final = "def size():\n    from {0} import size\n    return size()\n" + _PLAN
_COUNT: Final = "calls = []\ndef size():\n    calls.append(1)\n    return len(calls)\n"


def write(folder: Path, members: dict[str, str]) -> Path:
    """Write a tree of files; give the folder."""
    for name, text in members.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def write_wheel(folder: Path, members: dict[str, str], name: str = "fork") -> str:
    """Write a wheel; give its path."""
    file = folder / f"{name}-9.8.7-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for member, text in members.items():
            wheel.writestr(member, text)
    return str(file)


def applied(name: str, folder: Path, boots: int = 2) -> list[int | None]:
    """What boots of a subject applied, each in a new process."""
    with World(load_subject(name), folder) as world:
        results = [world.boot(Engine()) for _ in range(boots)]
    assert [result.raised for result in results] == [None] * boots
    return [result.applied for result in results]


def refusal(name: str) -> str:
    """The sentence with which a subject is refused when it is tried out."""
    with pytest.raises(SubjectError) as caught:
        try_out(name)
    return str(caught.value)


# Each is the file of a plan, that of another module of its tree, and how the plan names it.
_TREES: Final = {
    "own package": ("fork/plan.py", "fork/util/sizes.py", "fork.util.sizes"),
    "relative": ("fork/plan.py", "fork/sizes.py", ".sizes"),
    "relative, deep": ("fork/worker/plan.py", "fork/util/sizes.py", "..util.sizes"),
    "below vLLM": (_SHIPPED, "vllm/my_fork/sizes.py", "vllm.my_fork.sizes"),
    "beside vLLM's": (_SHIPPED, "vllm/v1/worker/sizes.py", ".sizes"),
}


@pytest.mark.parametrize("source", [_TOP, _MIDST], ids=["at the top", "in the midst"])
@pytest.mark.parametrize("way", ["wheel", "file"])
@pytest.mark.parametrize("tree", _TREES.values(), ids=_TREES)
def test_own_modules_come_from_the_tree(
    tmp_path: Path, tree: tuple[str, str, str], way: str, source: str
) -> None:
    """A fork's own module is found in its wheel or checkout, and is another one in each boot."""
    plan, helper, name = tree
    members = {f"{folder}/__init__.py": "" for folder in Path(helper).parents[:-1]}
    for folder in Path(plan).parents[:-1]:
        members[f"{folder}/__init__.py"] = "raise RuntimeError('nobody asked for a name of it')"
    members |= {plan: source.format(name), helper: _COUNT}
    if way == "wheel":
        subject = f"{write_wheel(tmp_path, members)}!{plan}"
    else:
        subject = str(write(tmp_path / "checkout", members) / plan)

    assert applied(subject, tmp_path) == [1, 1]
    assert not any(key.partition(".")[0] == "fork" for key in sys.modules)


def test_modules_beside_a_lone_file_are_found(tmp_path: Path) -> None:
    """A file outside any package finds the modules beside it, unless Python has one itself."""
    write(tmp_path, {"sizes.py": _COUNT, "json.py": "raise RuntimeError('not this one')"})
    write(tmp_path, {"plan.py": "import json\n" + _MIDST.format("sizes")})

    assert applied(str(tmp_path / "plan.py"), tmp_path) == [1, 1]


@pytest.mark.parametrize("name", ["plan", "my-plan.py", "plan.old.py"])
def test_a_file_that_cannot_be_imported_stands_alone(tmp_path: Path, name: str) -> None:
    """A file in a package whose name no import statement could spell is judged by itself."""
    write(tmp_path, {"fork/__init__.py": "", f"fork/{name}": "def size(): return 2\n" + _PLAN})

    assert applied(str(tmp_path / "fork" / name), tmp_path) == [2, 2]


def test_what_the_simulation_knows_stays_its_own(tmp_path: Path) -> None:
    """Of a fork's module of vLLM only those names are used that the simulation does not know."""
    members = {
        "vllm/utils/mem_constants.py": "GiB_bytes = 1\nMY_SHARE = 7\n",
        _SHIPPED: (
            "from vllm.utils.mem_constants import GiB_bytes, MY_SHARE\n"
            "from vllm.utils import mem_constants\n"
            "def size():\n    return MY_SHARE * GiB_bytes + mem_constants.GiB_bytes\n" + _PLAN
        ),
    }

    assert applied(write_wheel(tmp_path, members), tmp_path) == [8 << 30] * 2


def test_a_package_is_executed_when_a_name_of_it_is_asked_for(tmp_path: Path) -> None:
    """Packages above a file are executed when they are needed, and only then."""
    members = {
        "fork/__init__.py": "def size():\n    return 5\n",
        "fork/plan.py": _TOP.format("fork"),
    }

    assert applied(f"{write_wheel(tmp_path, members)}!fork/plan.py", tmp_path) == [5, 5]


@pytest.mark.parametrize("source", [_TOP, _MIDST], ids=["at the top", "in the midst"])
def test_what_cannot_be_executed_is_refused(tmp_path: Path, source: str) -> None:
    """A module of a fork that needs more than the simulation has is named, with what it lacks."""
    members = {
        "vllm/my_fork/sizes.py": "import torch\nbig = torch.compile\ndef size(): return 1\n",
        _SHIPPED: source.format("vllm.my_fork.sizes"),
    }
    sentence = refusal(write_wheel(tmp_path, members))

    assert "it asks vllm.my_fork.sizes for 'size'" in sentence
    assert "vllm/my_fork/sizes.py cannot be executed there: it asks torch for 'compile'" in sentence


def test_the_digest_covers_what_is_imported_late(tmp_path: Path) -> None:
    """Two subjects that differ only in a module that is imported late have two digests."""
    digests = set()
    for size in ("1", "2"):
        helper = f"def size():\n    return {size}\n"
        members = {"fork/sizes.py": helper, "fork/plan.py": _MIDST.format(".sizes")}
        digests.add(try_out(str(write(tmp_path / size, members) / "fork" / "plan.py")).sha256)
        members["fork/__init__.py"] = ""
        digests.add(try_out(str(write(tmp_path / size, members) / "fork" / "plan.py")).sha256)

    assert len(digests) == 3


def test_one_of_two_plans_in_a_wheel_is_named(tmp_path: Path) -> None:
    """A wheel with two such modules is refused with a name that says which, and it works."""
    members = {
        "fork/startup_plan.py": "def size(): return 3\n" + _PLAN,
        "fork/patch/startup_plan.py": "def size(): return 4\n" + _PLAN,
    }
    wheel = write_wheel(tmp_path, members)

    assert f"name the file as {wheel}!fork/startup_plan.py" in refusal(wheel)
    assert applied(f"{wheel}!fork/patch/startup_plan.py", tmp_path) == [4, 4]
    assert "contains no Python module fork/other.py" in refusal(f"{wheel}!fork/other.py")


_SIZED: Final = "def size(): return 3\n" + _PLAN

# Each is a name, and what lies in the folder where it is used.
_HERE: Final = {
    "package": ("mine", {"mine/__init__.py": _SIZED}),
    "module": ("mine", {"mine.py": _SIZED}),
    "inside": ("mine.plan", {"mine/__init__.py": "", "mine/plan.py": _SIZED}),
    "namespace": ("mine.plan", {"mine/plan.py": _SIZED}),
    "vllm": ("vllm", {"vllm/__init__.py": "raise RuntimeError", _SHIPPED: _SIZED}),
    "below vllm": ("vllm.mine", {"vllm/__init__.py": "", "vllm/mine.py": _SIZED}),
}


@pytest.mark.parametrize(("name", "members"), _HERE.values(), ids=_HERE)
def test_names_are_found_in_the_folder_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: dict[str, str]
) -> None:
    """A dotted name means what lies here, before what is installed, in every process alike."""
    here = write(tmp_path / "here", members)
    there = write(tmp_path / "there", {"mine.py": "raise RuntimeError", "vllm/__init__.py": ""})
    monkeypatch.chdir(here)
    if name != "mine.plan":
        monkeypatch.syspath_prepend(there)
    elsewhere = boot_elsewhere(name, str(tmp_path), "1")

    assert (applied(name, tmp_path), elsewhere.applied) == ([3, 3], 3)
    assert load_subject(name).file.startswith(str(here))


def test_an_installation_in_place_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that only the finder of an installation in place knows is found through it."""
    import importlib.util  # noqa: PLC0415  # for this finder alone

    file = write(tmp_path, {"elsewhere.py": _SIZED}) / "elsewhere.py"

    class Finder:
        @staticmethod
        def find_spec(name: str, _path: object = None, _target: object = None) -> object:
            return importlib.util.spec_from_file_location(name, file) if name == "mine" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])

    assert applied("mine", tmp_path) == [3, 3]


_WRAPPER: Final = """
import vllm.v1.worker.startup_plan as below
seen = below.marks
below.marks.append(1)
_key = below.compute_plan_fingerprint
def compute_plan_fingerprint(vllm_config, rank, world_size):
    return _key(vllm_config, rank, world_size)[::-1]
below.compute_plan_fingerprint = compute_plan_fingerprint
below.size = lambda: 10 * len(seen)
from vllm.v1.worker.startup_plan import maybe_apply_startup_plan, maybe_save_startup_plan
"""
_BELOW: Final = "marks = []\ndef size(): return 3\n" + _PLAN


@pytest.mark.parametrize("way", ["wheel", "file", "dotted"])
def test_a_wrapper_stands_on_what_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What vLLM's module is to a wrapper is what `--on` names, executed anew in each boot."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"wrapper.py": _WRAPPER, "below/plan.py": _BELOW})
    below = {
        "wheel": write_wheel(tmp_path, {_SHIPPED: _BELOW}),
        "file": "below/plan.py",
        "dotted": "below.plan",
    }[way]
    name = str(SubjectName("wrapper.py", on=below))

    assert applied(name, tmp_path) == [10, 10]
    assert boot_elsewhere(name, str(tmp_path), "1").applied == 10


def test_a_wrapper_stands_on_the_module_of_its_own_tree(tmp_path: Path) -> None:
    """A fork's hook beside vLLM's module finds that one without being told."""
    wheel = write_wheel(tmp_path, {_SHIPPED: _BELOW, "vllm/hook.py": _WRAPPER})

    assert applied(f"{wheel}!vllm/hook.py", tmp_path) == [10, 10]


def test_the_reference_can_stand_below(tmp_path: Path) -> None:
    """A package can stand below a wrapper, and is found under vLLM's name."""
    file = write(tmp_path, {"wrapper.py": "from vllm.v1.worker.startup_plan import *\n"})
    name = str(SubjectName(str(file / "wrapper.py"), on="reference"))
    with World(load_subject(name), tmp_path) as world:
        first, second = world.boot(Engine()), world.boot(Engine())

    assert (first.applied, second.applied) == (None, first.suggestion)


def test_a_wrapper_without_anything_below_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing stands below, the sentence says how to name it."""
    monkeypatch.setattr("startup_plan.harness.world.loading.ordinary_spec", lambda _name: None)
    file = write(tmp_path, {"wrapper.py": _WRAPPER}) / "wrapper.py"

    assert "nothing stands below it; say what does, as in --on" in refusal(str(file))


def test_what_stands_below_has_to_be_there(tmp_path: Path) -> None:
    """What `--on` and `--adapter` name and is not there, or cannot be, is said by the option."""
    wheel = write_wheel(tmp_path, {_SHIPPED: _BELOW})
    absent = str(tmp_path / "absent.py")
    said = [
        refusal(str(SubjectName("reference", on=absent))),
        refusal(str(SubjectName("reference", adapter=absent))),
        refusal(str(SubjectName(wheel, on=wheel))),
    ]

    assert [words.partition(" ")[0] for words in said] == ["--on:", "--adapter:", wheel]
    assert said[2].endswith("so nothing can stand below it; leave out --on")


_OLDER: Final = """
import json, os
PLAN_SCHEMA_VERSION = 1
def compute_plan_fingerprint(vllm_config, rank, world_size):
    return f"{rank:08d}{world_size:08d}"
def maybe_apply_startup_plan(folder, vllm_config, rank, world_size, free):
    key = compute_plan_fingerprint(vllm_config, rank, world_size)
    try:
        with open(os.path.join(folder, f"startup_plan_{key}.json")) as file:
            plan = json.load(file)
    except OSError:
        return None
    return plan["kv_cache_memory_bytes"] if free >= plan["free_memory_baseline"] else None
"""
_HOOK: Final = """
from vllm.v1.worker import startup_plan
_look_up = startup_plan.maybe_apply_startup_plan
def _patched(worker):
    _look_up(worker)
startup_plan.maybe_apply_startup_plan = _patched
"""
_CLASS: Final = (
    _REWRITE
    + """
class Plan:
    def key(self, config, rank, size): return compute_plan_fingerprint(config, rank, size)
    def apply(self, worker): return look_up(worker)
    def save(self, worker, size): return keep(worker, size)
look_up, keep = maybe_apply_startup_plan, maybe_save_startup_plan
del maybe_apply_startup_plan, maybe_save_startup_plan
"""
)
_METHODS: Final = """
import startup_plan_subject
plan = startup_plan_subject.Plan()
compute_plan_fingerprint = plan.key
maybe_apply_startup_plan = plan.apply
maybe_save_startup_plan = plan.save
"""


@pytest.mark.parametrize(
    ("source", "on", "adapter"),
    [
        pytest.param(_OLDER, None, (ADAPTERS / "older_vllm.py").read_text(), id="older"),
        pytest.param(_HOOK, str(REWRITE), (ADAPTERS / "hook.py").read_text(), id="hook"),
        pytest.param(_CLASS, None, _METHODS, id="methods"),
    ],
)
def test_an_adapter_gives_a_subject_vllms_functions(
    tmp_path: Path, source: str, on: str | None, adapter: str
) -> None:
    """What has other names, other arguments or none at all boots, saves and applies adapted."""
    write(tmp_path, {"subject.py": source, "adapter.py": adapter})
    name = str(SubjectName(str(tmp_path / "subject.py"), on, str(tmp_path / "adapter.py")))
    tried = try_out(name)
    with World(load_subject(name), tmp_path) as world:
        first, second = world.boot(Engine()), world.boot(Engine())

    assert (first.raised, second.raised) == (None, None)
    assert (first.applied, second.applied) == (None, first.suggestion)
    assert (tried.file, tried.does_without) == (str(tmp_path / "subject.py"), [])


def test_a_name_says_all_in_one_argument() -> None:
    """A name with what belongs to it comes back from its text, with blanks and quotes in it."""
    names = [
        SubjectName("vllm"),
        SubjectName("a plan's file.py"),
        SubjectName("a --on b.py"),
        SubjectName("it's.py", on="the wheel.whl"),
        SubjectName("mine", adapter="a 'b'.py"),
        SubjectName("mine", on="x", adapter="y"),
    ]

    assert [SubjectName.parse(str(name)) for name in names] == names


@pytest.mark.parametrize("source", ["from .whole import *\n", "from fork.whole import *\n"])
def test_a_fault_in_an_own_module_shows(
    tmp_path: Path, seeded: Callable[[str], str], source: str
) -> None:
    """A mistake that lies in another module of the tree is the subject's, as it is in one file."""
    found = []
    for slug, whole in (
        ("sound", _REWRITE),
        ("faulty", Path(seeded("utilization_left_out")).read_text("utf-8")),
    ):
        members = {"fork/__init__.py": "", "fork/plan.py": source, "fork/whole.py": whole}
        plan = write(tmp_path / slug, members) / "fork" / "plan.py"
        (tmp_path / f"{slug}-world").mkdir()
        with World(load_subject(str(plan)), tmp_path / f"{slug}-world") as world:
            for utilization in (0.5, 0.9):
                engine = Engine()
                engine.set(UTILIZATION, utilization)
                result = world.boot(engine)
            found.append(result.applied is not None)

    assert found == [False, True]


def test_the_command_takes_what_belongs_to_a_subject(
    tmp_path: Path, mini_suite: MiniSuite, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `--on` and `--adapter` name and cannot be loaded ends the gate before anything runs."""
    mini_suite("raise RuntimeError('the suite was run')")
    said = []
    for option in ("--on", "--adapter"):
        status = cli.run(["gate", "reference", option, str(tmp_path / "absent.py")])
        said.append((status, f"Error: {option}: {tmp_path}" in capsys.readouterr().err))

    assert said == [(3, True)] * 2
