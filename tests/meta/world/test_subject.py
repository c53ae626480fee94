# SPDX-License-Identifier: Apache-2.0
"""From a name to a loaded subject: every kind of name, every refusal, and the proof."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pytest

import startup_plan
from startup_plan.harness.world import loading
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.harness.world.subject import MissingFunctionError
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo.seed import REWRITE

if TYPE_CHECKING:
    from collections.abc import Callable

_APPLY: Final = """
def maybe_apply_startup_plan(worker):
    worker.cache_config.kv_cache_memory_bytes = 12345
"""
_SAVE: Final = """
def maybe_save_startup_plan(worker, kv_cache_memory_bytes):
    pass
"""
_KEY: Final = """
def compute_plan_fingerprint(vllm_config, rank, world_size):
    return "0" * 16
"""
_PLAN: Final = _KEY + _APPLY + _SAVE

_MEMBER: Final = "vllm/v1/worker/startup_plan.py"


def digest(source: str) -> str:
    """The digest that proves which source was loaded."""
    return hashlib.sha256(source.encode()).hexdigest()


def write_file(folder: Path, source: str, name: str = "plan.py") -> str:
    """Write a subject of one file; give its path."""
    file = folder / name
    file.write_text(source)
    return str(file)


def write_wheel(folder: Path, members: dict[str, str]) -> str:
    """Write a wheel; give its path."""
    file = folder / "vllm-9.8.7-cp38-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for name, text in members.items():
            wheel.writestr(name, text)
    return str(file)


def install_vllm(folder: Path, source: str | None) -> Path:
    """Install something that looks like vLLM 7.6.5 into a folder; give the file of its plan."""
    file = folder / "vllm" / "v1" / "worker" / "startup_plan.py"
    file.parent.mkdir(parents=True)
    # Whoever imports the package itself instead of reading the file will hear of it.
    (folder / "vllm" / "__init__.py").write_text("raise RuntimeError('vLLM was imported')\n")
    if source is not None:
        file.write_text(source)
    facts = folder / "vllm-7.6.5.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 7.6.5\n")
    return file


def boot(name: str, folder: Path) -> int | None:
    """Load a subject, boot with it twice in one world, and give what the second boot applied."""
    with World(load_subject(name), folder) as world:
        engine = Engine()
        first, second = world.boot(engine), world.boot(engine)

    assert (first.raised, second.raised) == (None, None)
    return second.applied


def refusal(name: str) -> str:
    """Why a subject is refused, which is one sentence of one line."""
    with pytest.raises(SubjectError) as caught:
        load_subject(name)
    sentence = str(caught.value)

    assert "\n" not in sentence
    return sentence


def test_file(tmp_path: Path) -> None:
    """A file is loaded from its path, and the proof names its real place and its digest."""
    os.symlink(write_file(tmp_path, _PLAN), tmp_path / "link.py")
    subject = load_subject(str(tmp_path / "link.py"))

    assert (subject.name, subject.file, subject.sha256, subject.version, subject.missing) == (
        str(tmp_path / "link.py"),
        str(tmp_path / "plan.py"),
        digest(_PLAN),
        "",
        (),
    )
    assert boot(subject.name, tmp_path) == 12345


def test_file_beside_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare file name means the file in the folder that the user is in."""
    write_file(tmp_path, _PLAN)
    monkeypatch.chdir(tmp_path)

    assert load_subject("plan.py").file == str(tmp_path / "plan.py")


def test_file_without_a_suffix(tmp_path: Path) -> None:
    """A path is a path, whatever the file is called."""
    path = write_file(tmp_path, _PLAN, "plan")

    assert load_subject(path).sha256 == digest(_PLAN)


def test_wheel(tmp_path: Path) -> None:
    """The module is found inside a wheel, proven by place, digest and version, and it boots."""
    path = write_wheel(tmp_path, {"vllm/__init__.py": "raise RuntimeError", _MEMBER: _PLAN})
    subject = load_subject(path)

    assert (subject.file, subject.sha256, subject.version) == (
        f"{path}!{_MEMBER}",
        digest(_PLAN),
        "9.8.7",
    )
    assert boot(path, tmp_path) == 12345


def test_relative_imports_of_a_wheel_reach_the_stubs(tmp_path: Path) -> None:
    """A module out of a wheel may import its neighbours by relative names."""
    source = "from ...logger import init_logger\nlogger = init_logger(__name__)\n" + _PLAN
    path = write_wheel(tmp_path, {_MEMBER: source})

    assert boot(path, tmp_path) == 12345


def test_dotted_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is loaded with every module of it that it imports; the digest covers them all."""
    package = tmp_path / "plans_of_mine"
    package.mkdir()
    save = f"from __future__ import annotations\n{_SAVE}"
    inner = f"from .saving import maybe_save_startup_plan\n{_KEY}{_APPLY}"
    (package / "__init__.py").write_text("")
    (package / "saving.py").write_text(save)
    (package / "inner.py").write_text(inner)
    (package / "unused.py").write_text("raise RuntimeError('nobody asked for this module')\n")
    monkeypatch.syspath_prepend(tmp_path)
    subject = load_subject("plans_of_mine.inner")

    assert (subject.file, subject.sha256, subject.missing) == (
        str(package / "inner.py"),
        digest("" + inner + save),
        (),
    )
    assert boot("plans_of_mine.inner", tmp_path) == 12345
    assert not any(name.startswith("plans_of_mine") for name in sys.modules)


def test_reference() -> None:
    """The reference is this package without its harness, in the version that is installed."""
    home = Path(startup_plan.__file__).parent
    subject = load_subject("reference")

    assert (subject.file, subject.version, subject.missing) == (
        str(home / "reference" / "__init__.py"),
        importlib.metadata.version("startup-plan"),
        (),
    )
    assert sys.modules["startup_plan"] is startup_plan


def test_reference_is_proven_by_all_of_its_modules(tmp_path: Path) -> None:
    """The digest of the reference covers every module that one boot executes."""
    subject, before = load_subject("reference"), dict(sys.modules)
    with World(subject, tmp_path) as world:
        world.boot(Engine())
        executed = sorted(
            name
            for name, module in sys.modules.items()
            if name.split(".")[0] == "startup_plan" and module is not before.get(name)
        )
        files = [Path(str(sys.modules[name].__file__)) for name in executed]
    whole = hashlib.sha256(b"".join(file.read_bytes() for file in files))

    assert subject.sha256 == whole.hexdigest()


def test_installed_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`vllm` is the installed one's module, read without importing vLLM, with its version."""
    file = install_vllm(tmp_path, _PLAN)
    monkeypatch.syspath_prepend(tmp_path)
    found = [load_subject(name) for name in ("vllm", "vllm.v1.worker.startup_plan")]

    assert [(s.file, s.sha256, s.version) for s in found] == [
        (str(file), digest(_PLAN), "7.6.5")
    ] * 2


def test_installed_vllm_without_a_plan_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed vLLM without the module is named, with what to do instead."""
    install_vllm(tmp_path, None)
    monkeypatch.syspath_prepend(tmp_path)
    sentence = refusal("vllm")

    assert "vllm.v1.worker.startup_plan" in sentence
    assert "give its dotted name" in sentence


def test_absent_vllm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vLLM the remedy is to install it or to name a file or a wheel."""
    monkeypatch.setattr(f"{loading.__name__}.ordinary_spec", lambda _name: None)

    assert refusal("vllm").startswith("vLLM is not installed here; install it, or give the path")


def write_nothing(folder: Path) -> str:
    """The path of a file that is not there."""
    return str(folder / "absent.py")


def write_folder(folder: Path) -> str:
    """The path of a folder."""
    return str(folder)


def write_binary(folder: Path) -> str:
    """The path of a file that holds no text."""
    (folder / "plan.py").write_bytes(bytes(range(256)))
    return str(folder / "plan.py")


def write_empty_wheel(folder: Path) -> str:
    """The path of a wheel without the module."""
    return write_wheel(folder, {"vllm/__init__.py": ""})


def write_double_wheel(folder: Path) -> str:
    """The path of a wheel with two such modules."""
    return write_wheel(folder, {_MEMBER: _PLAN, "vllm/v2/startup_plan.py": _PLAN})


def write_torn_wheel(folder: Path) -> str:
    """The path of a wheel that is no archive."""
    return write_file(folder, "not a zip archive", "vllm-1.0-py3-none-any.whl")


def name_absent_wheel(folder: Path) -> str:
    """The path of a wheel that is not there."""
    return str(folder / "vllm-1.0-py3-none-any.whl")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (write_nothing, ("No such file", "give the path of a startup plan module")),
        (write_folder, ("Is a directory", "give the path of a startup plan module")),
        (write_binary, ("is not Python",)),
        (write_empty_wheel, ("contains none", ".whl!PACKAGE/MODULE.py")),
        (
            write_double_wheel,
            (f"contains {_MEMBER}, vllm/v2/startup_plan.py", "name the file as /", f"!{_MEMBER}"),
        ),
        (write_torn_wheel, ("is not a wheel",)),
        (name_absent_wheel, ("No such file",)),
    ],
)
def test_what_is_no_subject_is_refused(
    tmp_path: Path, make: Callable[[Path], str], words: tuple[str, ...]
) -> None:
    """What is not there, or is not what its name says, is refused by its path and a remedy."""
    path = make(tmp_path)
    sentence = refusal(path)

    assert path in sentence
    assert all(part in sentence for part in words)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def maybe_apply_startup_plan(worker:\n", "is not Python"),
        ("nul = '\0'\n", "is not Python"),
        ("", "it has none of compute_plan_fingerprint, maybe_apply_startup_plan, maybe_save"),
        ("compute_plan_fingerprint = 'no function'\n", "is no startup plan"),
        ("raise ValueError('no device')\n", "it raises ValueError: no device"),
        ("1 / 0\n", "it raises ZeroDivisionError: division by zero"),
        ("raise SystemExit(7)\n", "it exits with 7"),
        ("import plan_that_is_not_there\n", "No module named 'plan_that_is_not_there'"),
        ("import torch\ntorch.magic()\n", "it asks torch for 'magic'"),
        ("import torch.magic\n", "it asks torch for 'magic'"),
        ("from vllm.utils import magic\nmagic()\n", "it asks vllm.utils for 'magic'"),
        ("import vllm.a.b as c\nc.magic_figure\n", "it asks vllm.a.b for 'magic_figure'"),
    ],
)
def test_source_that_does_not_load_is_refused(tmp_path: Path, source: str, words: str) -> None:
    """What is wrong with a source is said by the file, in the words of what went wrong."""
    path = write_file(tmp_path, source)
    sentence = refusal(path)

    assert path in sentence
    assert words in sentence


@pytest.mark.parametrize("name", ["plan_that_is_not_there", "json.plan_that_is_not_there"])
def test_unknown_module_is_refused(name: str) -> None:
    """A dotted name that leads nowhere is named, with a remedy."""
    sentence = refusal(name)

    assert sentence.startswith(f"{name} cannot be imported: No module named")
    assert sentence.endswith("check the name, and install what it needs")


def test_module_without_the_functions_is_refused() -> None:
    """A module that is no startup plan is refused, whatever it is."""
    assert "is no startup plan" in refusal("colorsys")


def test_module_without_source_is_refused() -> None:
    """A module that is not written in Python cannot be executed for each boot."""
    assert refusal("math") == "math has no Python source that could be judged"


def test_refusal_of_one_subject_says_nothing_of_the_next(tmp_path: Path) -> None:
    """What one subject asked for and did not get is not held against another."""
    refusal(write_file(tmp_path, "import vllm.utils\nvllm.utils.magic_figure\n"))

    assert "magic_figure" not in refusal(write_file(tmp_path, "raise ValueError('other')\n"))


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("import vllm.utils", "vllm.utils.magic"),
        ("from vllm.utils import magic", "magic()"),
        ("import torch", "torch.magic"),
    ],
)
def test_unknown_name_is_refused_where_it_is_used(tmp_path: Path, line: str, use: str) -> None:
    """A name without a meaning that is asked for in a boot raises there, with the sentence."""
    source = f"{line}\n{_KEY}{_SAVE}\ndef maybe_apply_startup_plan(worker):\n    {use}\n"
    with World(load_subject(write_file(tmp_path, source)), tmp_path) as world:
        result = world.boot(Engine())

    assert result.where == "apply"
    assert "for 'magic', to which the simulated vLLM gives no meaning" in str(result.raised)


_HERE: Final = (
    "import torch\n"
    "from vllm import envs\n"
    "from vllm.logger import init_logger\n"
    "from vllm.platforms import current_platform\n"
)
_MOVED: Final = (
    "import torch\n"
    "from vllm.foundation.system import envs\n"
    "from vllm.foundation.system.logging import init_logger\n"
    "from vllm.backends.platform import current_platform\n"
)
_SOMEWHERE: Final = (
    "import torch\n"
    "import vllm.foundation.system.envs as envs\n"
    "from vllm.anywhere.at_all import current_platform, init_logger\n"
)
_VERSION: Final = "from vllm import __version__ as vllm_version"


@pytest.mark.parametrize(
    ("imports", "version"),
    [
        pytest.param(_HERE, _VERSION, id="as-in-0.33.0"),
        pytest.param(_MOVED, "from vllm.version import __version__ as vllm_version", id="moved"),
        pytest.param(
            _SOMEWHERE, "from vllm.anywhere import __version__ as vllm_version", id="somewhere"
        ),
    ],
)
def test_moved_imports_are_served(tmp_path: Path, imports: str, version: str) -> None:
    """A plan boots and is applied, wherever its release keeps the names that it imports."""
    source = REWRITE.read_text("utf-8")
    assert (source.count(_HERE), source.count(_VERSION)) == (1, 1)
    moved = source.replace(_HERE, imports).replace(_VERSION, version)
    path = write_file(tmp_path, moved)
    with World(load_subject(path), tmp_path) as world:
        engine = Engine()
        first, second = world.boot(engine), world.boot(engine)

    assert first.suggestion is not None
    assert second.applied == first.suggestion


@pytest.mark.parametrize(
    ("source", "missing", "used"),
    [
        (_APPLY + _SAVE, "compute_plan_fingerprint", False),
        (_KEY + _SAVE, "maybe_apply_startup_plan", True),
        (_KEY + "def maybe_apply_startup_plan(worker): pass\n", "maybe_save_startup_plan", True),
    ],
)
def test_missing_function_fails_only_where_it_is_used(
    tmp_path: Path, source: str, missing: str, *, used: bool
) -> None:
    """A subject without one of the functions loads; whoever calls it hears which one is missing."""
    subject = load_subject(write_file(tmp_path, source))
    said = []
    with World(subject, tmp_path) as world:
        try:
            world.boot(Engine())
        except MissingFunctionError as error:
            said.append(str(error))
        with pytest.raises(MissingFunctionError, match=f"has no function {missing}"):
            getattr(subject.fresh(), missing)(None)

    assert subject.missing == (missing,)
    assert said == (
        [f"{subject.name} has no function {missing}; a startup plan must define it"] if used else []
    )


@pytest.mark.parametrize("entered", [False, True], ids=["loading", "booting"])
def test_modules_of_the_caller_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, entered: bool
) -> None:
    """Neither loading nor booting a subject takes a module away from whoever asks for it."""
    before = ModuleType("startup_plan_subject")
    monkeypatch.setitem(sys.modules, "startup_plan_subject", before)
    vllm = sys.modules.get("vllm")
    path = write_file(tmp_path, _PLAN)
    if entered:
        boot(path, tmp_path)
    else:
        load_subject(path)

    assert sys.modules["startup_plan_subject"] is before
    assert sys.modules.get("vllm") is vllm


def test_worlds_can_share_a_subject(tmp_path: Path) -> None:
    """A subject that was executed in one world answers from the next one there."""
    subject = load_subject(str(REWRITE))
    keys = []
    for vllm in ("0.33.0", "0.34.0"):
        with World(subject, tmp_path / vllm) as world:
            world.runtime.vllm = vllm
            engine = Engine()
            engine.hash_override = "same"
            world.boot(engine)
            keys.append(world.files())

    assert len(keys[0]) == len(keys[1]) == 1
    assert keys[0] != keys[1]


def test_a_twin_has_instances_of_its_own(tmp_path: Path) -> None:
    """Two processes of one subject live beside each other, and each comes back as it was."""
    subject = load_subject(write_file(tmp_path, _PLAN))
    twin = subject.twin()
    with World(subject, tmp_path):
        ours, theirs = subject.fresh(), twin.fresh()
        vars(theirs)["mark"] = 1
        again = subject.resume()
        seen = (sys.modules[ours.__name__], twin.resume(), twin.instances[-1])

    assert (ours is theirs, again is ours, seen) == (False, True, (ours, theirs, theirs))


def test_nothing_executed_apart_is_used_outside(tmp_path: Path) -> None:
    """Modules that were executed on another system are executed anew outside it, and within."""
    subject = load_subject(write_file(tmp_path, _PLAN))
    with World(subject, tmp_path):
        before = subject.fresh()
        with subject.apart():
            within = subject.fresh()
        after = subject.fresh()

    assert len({before, within, after}) == 3
