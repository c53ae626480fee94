# SPDX-License-Identifier: Apache-2.0
"""A loaded subject: compiled sources, and proof of what they are.

Every simulated boot gets fresh module instances, because a boot is a process: whatever a subject
keeps in its modules must not reach the next boot. So the sources are compiled once, and executed
again for each boot, unless it can be shown that nothing in them has changed (`freshness`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import MutableMapping
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs import modules as stub_modules
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate

from .freshness import Pristine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SCHEMA: Final = "PLAN_SCHEMA_VERSION"
"""What vLLM's module calls it."""

FUNCTIONS: Final = {
    "compute_plan_fingerprint": ("vllm_config", "rank", "world_size"),
    "maybe_apply_startup_plan": ("worker",),
    "maybe_save_startup_plan": ("worker", "kv_cache_memory_bytes"),
}
"""What a startup plan is made of, and what vLLM's worker gives each function, in this order."""


Schema = int | str
"""A plan schema version, as a subject has it."""


def other_schemas(own: Schema) -> tuple[Schema, Schema]:
    """Two versions that are not a subject's own, of the same kind."""
    return (own + 1, own + 11) if isinstance(own, int) else (f"{own}1", f"{own}11")


class MissingFunctionError(AssertionError):
    """A test used a function that the subject does not have."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """One module of a subject: its name, its compiled source, and where it came from."""

    name: str
    code: CodeType
    file: str
    is_package: bool = False


@final
class Subject:
    """An implementation under test.

    Attributes:
        name: what was asked for.
        file: the file that was loaded; for a wheel, `WHEEL!MEMBER`.
        sha256: digest of all its sources, in the order of their names.
        version: version of the distribution it belongs to, or "" where that is unknown.
        missing: the functions that it does not have.
        schema: its plan schema version, a number or a text, None if it cannot be told.
        schema_name: what it calls that.
    """

    __slots__ = (
        "_instances",
        "_pristine",
        "_units",
        "file",
        "missing",
        "name",
        "schema",
        "schema_name",
        "schema_name",
        "sha256",
        "version",
    )

    def __init__(self, name: str, units: list[Unit], digest: str, version: str) -> None:
        """Execute the subject once, to see that it can be and what it has."""
        self.name = name
        self._units = units
        self.file = units[-1].file
        self.sha256 = digest
        self.version = version
        self.missing: tuple[str, ...] = ()
        self.schema: Schema | None = None
        self._instances: tuple[ModuleType, ...] = ()
        self._pristine: Pristine | None = None
        with self.out_of_the_way(), stubs_ready():
            module = self._execute()
            self.schema_name, self.schema = self._find_schema()
        self.missing = tuple(f for f in FUNCTIONS if not callable(getattr(module, f, None)))

    def fresh(self) -> ModuleType:
        """The subject's module as a new process would have it; stubs must be installed.

        The modules stay in `sys.modules` until the next call, so that late imports find them.
        """
        if self._pristine is not None and self._pristine.renew():
            return self.resume()
        module = self._execute()
        for function in self.missing:
            setattr(module, function, _absent(self.name, function))
        self._pristine = Pristine(self._instances)
        return module

    def resume(self) -> ModuleType:
        """The module as its process left it, where late imports find its instances again."""
        for instance in self._instances:
            sys.modules[instance.__name__] = instance
        return self._instances[-1]

    @property
    def instances(self) -> tuple[ModuleType, ...]:
        """The modules that were executed last, in their order; the subject's own ends them."""
        return self._instances

    def forget(self) -> None:
        """Let go of the instances: the next process executes the modules anew."""
        self._pristine = None

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Let nothing that is executed within be used outside, nor the other way round.

        Modules bind names of the system when they are executed, and the system within is another.
        """
        self.forget()
        try:
            yield
        finally:
            self.forget()

    def twin(self) -> Subject:
        """The same subject with instances of its own, for a process that lives beside another."""
        twin: Subject = object.__new__(Subject)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.forget()
        return twin

    def recompile(self, change: Callable[[CodeType], CodeType]) -> None:
        """Put what `change` makes of each module's code in its place."""
        self._units = [dataclasses.replace(unit, code=change(unit.code)) for unit in self._units]
        self.forget()

    def fresh_as(self, schema: Schema) -> ModuleType:
        """The module as a new process of a release with another plan schema version would have it.

        It is executed with that version from the first line on, so that what it makes of it when it
        is imported is of that version as well.
        """
        self.forget()
        return self._execute({self.schema_name: schema})

    def _find_schema(self) -> tuple[str, Schema | None]:
        """The name of the plan schema version, and its value; "" and None if it cannot be told."""
        found: dict[str, Schema] = {
            name: value
            for instance in self._instances
            for name, value in vars(instance).items()
            if "schema" in name.lower() and type(value) in (int, str)
        }
        if _SCHEMA in found:
            return _SCHEMA, found[_SCHEMA]
        return next(iter(found.items())) if len(found) == 1 else ("", None)

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

    def _execute(self, instead: Mapping[str, object] | None = None) -> ModuleType:
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
            space = vars(module)
            exec(unit.code, space, _Space(space, instead) if instead else space)
            parent, _, leaf = unit.name.rpartition(".")
            if parent in owned:
                setattr(sys.modules[parent], leaf, module)
        self._instances = tuple(modules)
        return modules[-1]


@final
class _Space(MutableMapping[str, Any]):
    """The names of a module while it is executed, some of which keep a value of ours.

    Args:
        names: of the module.
        instead: name to the value that it keeps, whatever is assigned to it.
    """

    def __init__(self, names: dict[str, Any], instead: Mapping[str, object]) -> None:
        self._names = names
        self._instead = instead

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._names[name] = self._instead.get(name, value)

    def __delitem__(self, name: str) -> None:
        del self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@contextlib.contextmanager
def stubs_ready() -> Iterator[None]:
    """Stubs installed and a plain simulation active, for loading."""
    activate(Simulation([Device()], Runtime()))
    try:
        with stub_modules.installed():
            yield
    finally:
        activate(None)


def _absent(name: str, function: str) -> Any:
    def call(*_args: object, **_options: object) -> None:
        raise MissingFunctionError(
            f"{name} has no function {function}; a startup plan must define it"
        )

    return call
