# SPDX-License-Identifier: Apache-2.0
"""A loaded subject: compiled sources, and proof of what they are.

Every simulated boot gets fresh module instances, because a boot is a process: whatever a subject
keeps in its modules must not reach the next boot. So the sources are compiled once, and executed
again for each boot, unless it can be shown that executing them would give the same (`freshness`).
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs import modules as stub_modules
from startup_plan.harness.stubs.backends import chosen
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate

from .freshness import Pristine
from .own_modules import SHIPPED, OwnModules, imports_kept
from .watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, ModuleType

    from .own_modules import Sources

_SCHEMA: Final = "PLAN_SCHEMA_VERSION"
"""What vLLM's module calls it."""

_SHIPPED_FILE: Final = f"{SHIPPED.replace('.', '/')}.py"

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
class Subject:
    """An implementation under test.

    Attributes:
        name: what was asked for.
        file: the file that was loaded; for a wheel, `WHEEL!MEMBER`.
        version: version of the distribution it belongs to, or "" where that is unknown.
        missing: the functions that it does not have.
        schema: its plan schema version, a number or a text, None if it cannot be told.
        schema_name: what it calls that.
    """

    __slots__ = (
        "_main",
        "_modules",
        "_pristine",
        "_settled",
        "file",
        "missing",
        "name",
        "schema",
        "schema_name",
        "version",
    )

    def __init__(self, name: str, sources: Sources, file: str, version: str) -> None:
        """Execute the subject once, to see that it can be and what it has."""
        self.name = name
        self.file = file
        self.version = version
        self.missing: tuple[str, ...] = ()
        self.schema: Schema | None = None
        self._modules = OwnModules(sources)
        self._main: ModuleType | None = None
        self._settled: frozenset[str] = frozenset()
        self._pristine: Pristine | None = None
        with self.out_of_the_way(), stubs_ready():
            module = self._modules.begin()
            self.schema_name, self.schema = self._find_schema()
        self.missing = tuple(f for f in FUNCTIONS if not callable(getattr(module, f, None)))

    @property
    def sha256(self) -> str:
        """Digest of every source that was executed so far, in the order of their names."""
        digest = hashlib.sha256()
        for _, source in sorted(self._modules.sources.used.items()):
            digest.update(source.text)
        return digest.hexdigest()

    @property
    def graphs_once(self) -> bool:
        """Whether the worker that it was released with takes CUDA graphs off once (BOOT-08).

        That of vLLM 0.26 does; from 0.27 on its estimate is in the peak that is taken off as well.
        """
        return self.version.startswith("0.26.") and self.file.endswith(_SHIPPED_FILE)

    def fresh(self) -> ModuleType:
        """The subject's module as a new process would have it; stubs must be installed.

        The modules stay in `sys.modules` until the next call, so that late imports find them.
        """
        if self._pristine is not None:
            self._modules.end(self._settled)
            if self._pristine.renew():
                return self.resume()
        with Watch() as watch:
            module = self._main = self._modules.begin()
        for function in self.missing:
            setattr(module, function, _absent(self.name, function))
        self._settled = frozenset(self._modules.alive)
        self._pristine = Pristine(self._modules.alive.values(), watch)
        return module

    def resume(self) -> ModuleType:
        """The module as its process left it, where late imports find its instances again."""
        assert self._main is not None
        self._modules.serve()
        return self._main

    @property
    def instances(self) -> tuple[ModuleType, ...]:
        """The modules of the process that ran last; the one with the functions ends them."""
        others = [module for module in self._modules.alive.values() if module is not self._main]
        return (*others, *filter(None, [self._main]))

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
        twin._modules = OwnModules(self._modules.sources)
        twin._main = None
        twin.forget()
        return twin

    def recompile(self, change: Callable[[CodeType], CodeType]) -> None:
        """Put what `change` makes of each module's code in its place."""
        self._modules.sources.recompile(change)
        self.forget()

    def fresh_as(self, schema: Schema) -> ModuleType:
        """The module as a new process of a release with another plan schema version would have it.

        It is executed with that version from the first line on, so that what it makes of it when it
        is imported is of that version as well.
        """
        self.forget()
        self._main = self._modules.begin({self.schema_name: schema})
        return self._main

    def _find_schema(self) -> tuple[str, Schema | None]:
        """The name of the plan schema version, and its value; "" and None if it cannot be told."""
        found: dict[str, Schema] = {
            name: value
            for instance in self.instances
            for name, value in vars(instance).items()
            if "schema" in name.lower() and type(value) in (int, str)
        }
        if _SCHEMA in found:
            return _SCHEMA, found[_SCHEMA]
        return next(iter(found.items())) if len(found) == 1 else ("", None)

    def out_of_the_way(self) -> contextlib.AbstractContextManager[None]:
        """Put back, at the end, whatever modules of these names were imported before."""
        return imports_kept(self._modules.sources)


@contextlib.contextmanager
def stubs_ready() -> Iterator[None]:
    """Stubs installed and a plain simulation active, for loading."""
    activate(Simulation([Device()], Runtime(backend=chosen().name)))
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
