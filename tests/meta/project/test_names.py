# SPDX-License-Identifier: Apache-2.0
"""What a message, comment, page or step of CI names exists: modules, paths, commands, extras."""

from __future__ import annotations

import ast
import functools
import importlib
import io
import re
import tokenize
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import click
import pytest

from startup_plan.cli.main import commands

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = ROOT / "src" / "startup_plan"
HARNESS: Final = PACKAGE / "harness"
SOURCES: Final = {
    "src": "src/**/*.py",
    "data": "src/**/*.toml",
    "suite": "tests/[fgpv]*/**/*.py",
    "benchmarks": "benchmarks/*.py",
    "scripts": "scripts/*",
    "docs": "docs/*.md",
    "top": "*.md",
    "configuration": "*.toml",
    "nox": "noxfile.py",
    "ci": ".ci/*",
    "hooks": ".pre-commit-config.yaml",
}

OUTSIDE: Final = frozenset({"startup_plan.py", "cpu_worker.py", "gpu_worker.py", "file.py"})
"""Files that are vLLM's, or only an example."""

PLACEHOLDERS: Final = frozenset({"DIR", "FILE", "KEY", "NAME", "SLUG"})

_MODULE: Final = re.compile(r"(?<![\w./-])startup_plan(?:\.[A-Za-z_]\w*)+")
_RUN: Final = re.compile(r"(?<![\w-])-m (startup_plan[\w.]*)")
_PATH: Final = re.compile(r"(?<![\w./*{}<>\\-])[\w*.-]+(?:/[\w*.-]+)*/?(?![\w*{}<>])")
_COMMAND: Final = re.compile(
    r"(?:^\s*|`|/|&& )startup-plan ([a-z][\w-]*)([^\n#;)&|]*)", re.MULTILINE
)
_ROW: Final = re.compile(r"\| `startup-plan (\w+)(.*)")
_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][\w-]+")
_SESSIONS: Final = re.compile(r"\bnox -s ((?:[a-z][\w-]*[ ,]*)+)")
_EXTRAS: Final = re.compile(r"(?:startup-plan|['\"]\.)\[([\w,-]+)\]|\bextra `([\w-]+)`")


@final
@dataclass(frozen=True, slots=True)
class Text:
    """Words that somebody may read, and where they stand."""

    path: Path
    line: int
    words: str


def texts(path: Path) -> Iterator[Text]:
    """Every string and comment of a Python file; of data files the comments; else every line."""
    source = path.read_text("utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Text(path, node.lineno, node.value)
            if isinstance(node, ast.List | ast.Tuple):
                words = [part.value for part in node.elts if isinstance(part, ast.Constant)]
                yield Text(path, node.lineno, " ".join(map(str, words)))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield Text(path, token.start[0], token.string)
        return
    is_data = path.suffix == ".toml" and path.is_relative_to(PACKAGE)
    for number, line in enumerate(source.splitlines(), start=1):
        if not is_data or line.startswith("#"):
            yield Text(path, number, line)


def wrong_names(words: str) -> Iterator[str]:
    """Say of each name in `words` that it names nothing."""
    for name in _MODULE.findall(words):
        if not name.endswith(".py") and not is_module(name):
            yield f"{name} is no module, and no name in one"
    for name in _RUN.findall(words):
        if not is_script(name):
            yield f"{name} is no module that can be run"
    for name in (match.rstrip(".") for match in _PATH.findall(words)):
        if not is_path(name):
            yield f"{name} is not there"
    for name, rest in [*_COMMAND.findall(words), *_ROW.findall(words)]:
        if name not in options():
            yield f"startup-plan {name} is no command"
        else:
            ours = rest.partition(" -- ")[0]
            unknown = set(_OPTION.findall(ours)) - options()[name]
            yield from (f"startup-plan {name} has no option {option}" for option in sorted(unknown))
    for names in _SESSIONS.findall(words):
        unknown = set(re.split(r"[ ,]+", names.strip(" ,"))) - sessions()
        yield from (f"nox has no session {name}" for name in sorted(unknown))
    for match in _EXTRAS.finditer(words):
        unknown = set((match[1] or match[2]).split(",")) - extras()
        yield from (f"there is no extra {name}" for name in sorted(unknown))


@functools.cache
def is_module(name: str) -> bool:
    """Whether a dotted name can be imported, or leads to something inside a module."""
    module, _, rest = name.partition(".")
    thing: object = importlib.import_module(module)
    for part in rest.split("."):
        module = f"{module}.{part}"
        try:
            thing = importlib.import_module(module)
        except ModuleNotFoundError:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
    return True


def is_script(name: str) -> bool:
    """Whether `python -m` has something to run: a package has its `__main__`, a module itself."""
    path = ROOT / "src" / name.replace(".", "/")
    return (path / "__main__.py").is_file() or path.with_suffix(".py").is_file()


@functools.cache
def is_path(name: str) -> bool:
    """Whether a path is there, unless it is a placeholder, or may well be somebody else's."""
    first, _, rest = name.partition("/")
    if name in OUTSIDE or PLACEHOLDERS.intersection(re.split(r"[/.]", name)):
        return True
    if not rest:
        # A name alone is a file of ours if it is that of source or prose; data has other names too.
        is_ours = name.endswith((".py", ".toml", ".md", ".sh")) and not name.startswith(("*.", "."))
        return not is_ours or any(exists(name, top) for top in (ROOT, *every_folder()))
    if first == "startup_plan" and not name.endswith((".py", ".toml")):
        return True  # below the root of a cache, plans lie in a folder of that name
    return first not in places() or any(exists(name, top) for top in tops())


def exists(name: str, top: Path) -> bool:
    """Whether a path, perhaps with wildcards, is there below `top`."""
    return next(top.glob(name.removeprefix("startup_plan/_suite/").strip("/")), None) is not None


@functools.cache
def tops() -> tuple[Path, ...]:
    """Folders that a path may start from."""
    return (ROOT, ROOT / "src", PACKAGE, HARNESS)


@functools.cache
def every_folder() -> tuple[Path, ...]:
    """Folders whose files may be named without it."""
    found = [ROOT / top for top in ("src", "tests", "scripts", "benchmarks", "docs")]
    return tuple(folder for top in found for folder in (top, *top.rglob("*/")) if folder.is_dir())


@functools.cache
def places() -> frozenset[str]:
    """First words of paths that are ours: what lies at the top, and every room."""
    ours = {"src", "tests", "scripts", "benchmarks", "docs", "startup_plan", "data"}
    rooms = (path.parent.name for top in (PACKAGE, HARNESS) for path in top.glob("*/__init__.py"))
    return frozenset(ours.union(rooms))


@functools.cache
def options() -> dict[str, set[str]]:
    """Each command with its options and those of its sub-commands."""
    context = click.Context(commands)
    found = {}
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        parts = [command, *getattr(command, "commands", {}).values()]
        found[name] = {
            option for part in parts for parameter in part.params for option in parameter.opts
        } | {"--help"}
    return found


@functools.cache
def sessions() -> frozenset[str]:
    """The sessions of the noxfile."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    found = set()
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        names = [
            keyword.value.value
            for decorator in function.decorator_list
            if isinstance(decorator, ast.Call)
            for keyword in decorator.keywords
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
        ]
        found.update([str(name) for name in names] or [function.name])
    return frozenset(found)


@functools.cache
def extras() -> frozenset[str]:
    """The extras that the project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return frozenset(project["optional-dependencies"])


@pytest.mark.parametrize("pattern", SOURCES.values(), ids=SOURCES)
def test_what_is_named_exists(pattern: str) -> None:
    """No message, comment, page or step names something that is not there."""
    paths = [path for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    found = [
        f"{text.path.relative_to(ROOT)}:{text.line}: {complaint}"
        for path in paths
        for text in texts(path)
        for complaint in wrong_names(text.words)
    ]

    assert (bool(paths), found) == (True, [])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("see startup_plan.harness.card_plan", "startup_plan.harness.card_plan is no module"),
        ("startup_plan.reference.plan.Nothing", "startup_plan.reference.plan.Nothing is no module"),
        ("python -m startup_plan.cli gate", "startup_plan.cli is no module that can be run"),
        ("in harness/card_plan.py.", "harness/card_plan.py is not there"),
        ("tests/meta/test_nothing.py::test_it", "tests/meta/test_nothing.py is not there"),
        ("below harness/machines/", "harness/machines/ is not there"),
        ("all of `real_*.py`", "real_*.py is not there"),
        ("the table `data/census.toml`", "data/census.toml is not there"),
        ("run `startup-plan judge`", "startup-plan judge is no command"),
        ("`startup-plan gate --fast`", "startup-plan gate has no option --fast"),
        ("    startup-plan bench --json x -- vllm --y", "startup-plan bench has no option --json"),
        ("| `startup-plan gate` | `--quik` too |", "startup-plan gate has no option --quik"),
        ("then nox -s check, lint", "nox has no session lint"),
        ("pip install 'startup-plan[all]'", "there is no extra all"),
        ("pip install -e '.[dev,docs]'", "there is no extra docs"),
        ("needs the extra `atheris`", "there is no extra atheris"),
    ],
)
def test_what_does_not_exist_is_found(words: str, complaint: str) -> None:
    """Each kind of name is complained about where it leads nowhere."""
    (found, *others) = dict.fromkeys(wrong_names(words))

    assert (found.startswith(complaint), others) == (True, [])


@pytest.mark.parametrize(
    "words",
    [
        "startup_plan.reference.plan.encode and startup_plan.harness.census",
        "tests/property/test_*.py, harness/zoo/ and census/census.toml",
        "vllm/v1/worker/gpu_worker.py, config/cache.py, path/to/startup_plan.py",
        "`startup-plan gate SUBJECT --only KEY-01` | `startup-plan bench diagnose DIR`",
        "our startup-plan is a project, and startup-plan: says it",
        "nox -s check quick",
        "pip install 'startup-plan[fuzz]' or '.[dev,bench]', for the extra `vllm-cpu`",
    ],
)
def test_what_exists_is_silent(words: str) -> None:
    """What is there, and what is vLLM's or only an example, is no complaint."""
    assert list(wrong_names(words)) == []
