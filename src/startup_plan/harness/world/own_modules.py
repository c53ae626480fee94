# SPDX-License-Identifier: Apache-2.0
"""The modules of a subject, imported as Python imports, from where the subject keeps them.

A subject's own modules are those of its tree: its wheel, its checkout, the package or the folder it
lies in. Names of vLLM that the simulation knows stay the simulation's; what it does not know and
the tree has comes from the tree.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import sys
from collections.abc import MutableMapping
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.modules import ROOTS, StubFinder
from startup_plan.harness.stubs.unknown import UnknownNameError, refuse, unknown_names

from .sources import Source, ordinary_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .sources import Tree

SHIPPED: Final = "vllm.v1.worker.startup_plan"
"""The module that vLLM ships: what a wrapper finds below itself."""

NOTHING_BELOW: Final = (
    f"it imports {SHIPPED}, and nothing stands below it; say what does, as in "
    "--on vllm-0.33.0-….whl, or install vLLM"
)

_NONE: Final = object()


@final
class Sources:
    """Everything that a subject consists of, compiled when it is first wanted.

    Args:
        main: the module that has the functions.
        named: modules that were asked for by name; they are never the simulation's.
        trees: where further modules come from, the first that has one.
        aliases: another name of a module -> the module.
        unexecuted: packages above a file, which are executed only if a name of them is asked for.

    Attributes:
        used: the sources that were executed so far, by name.
    """

    __slots__ = ("_change", "_codes", "_found", "_trees", "aliases", "main", "named", "unexecuted",
                 "used")  # fmt: skip

    def __init__(
        self,
        main: str,
        named: Iterable[str],
        trees: Iterable[Tree],
        aliases: Mapping[str, str],
        unexecuted: Iterable[str],
    ) -> None:
        """Nothing is read yet."""
        self.main = main
        self.named = frozenset(named)
        self.aliases = dict(aliases)
        self.unexecuted = frozenset(unexecuted)
        self.used: dict[str, Source] = {}
        self._trees = list(trees)
        self._found: dict[str, Source | ModuleSpec | None] = {}
        self._codes: dict[str, CodeType] = {}
        self._change: Callable[[CodeType], CodeType] = lambda code: code

    def owns(self, name: str) -> bool:
        """Whether a module of that name has to be the subject's own, wherever it is imported."""
        if name in self.named or name in self.aliases:
            return True
        return name.partition(".")[0] not in ROOTS and any(t.owns(name) for t in self._trees)

    def find(self, name: str) -> Source | ModuleSpec | None:
        """The module of that name, if the subject has it."""
        if name not in self._found:
            found = (tree.find(name) for tree in self._trees if tree.owns(name))
            self._found[name] = next((one for one in found if one is not None), None)
        return self._found[name]

    def code(self, source: Source) -> CodeType:
        """What is executed; the source counts as used from now on."""
        self.used[source.name] = source
        if source.name not in self._codes:
            code = compile(source.text, source.file, "exec", dont_inherit=True)
            self._codes[source.name] = self._change(code)
        return self._codes[source.name]

    def recompile(self, change: Callable[[CodeType], CodeType]) -> None:
        """Execute what `change` makes of each module's code from now on."""
        self._change = change
        self._codes.clear()


@final
class OwnModules:
    """The modules of one process of a subject.

    Args:
        sources: what they are made of.

    Attributes:
        alive: the modules that this process has, by name, in the order in which they began.
    """

    __slots__ = ("_begun", "_instead", "alive", "sources")

    def __init__(self, sources: Sources) -> None:
        """Nothing is imported yet."""
        self.sources = sources
        self.alive: dict[str, ModuleType] = {}
        self._begun: set[str] = set()
        self._instead: Mapping[str, object] = {}

    def serve(self) -> None:
        """Be the process whose modules every import finds."""
        other = _FINDER.process
        if other is not self:
            if other is not None:
                other.step_aside()
            _FINDER.process = self
        if not sys.meta_path or sys.meta_path[0] is not _FINDER:
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(_FINDER)
            sys.meta_path.insert(0, _FINDER)
        sys.modules.update(self.alive)

    def step_aside(self) -> None:
        """Let no import find a module of this process."""
        for name, module in self.alive.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

    def end(self, settled: frozenset[str] = frozenset()) -> None:
        """Forget every module but the settled ones, as if they had never been imported."""
        if len(self.alive) == len(settled):
            return
        for name in [name for name in self.alive if name not in settled]:
            module = self.alive.pop(name)
            self._begun.discard(name)
            # Where vLLM is real, a module of this name may be there that was never ours.
            if _is_simulated() or sys.modules.get(name) is module:
                sys.modules.pop(name, None)
            parent, _, leaf = name.rpartition(".")
            above = self.alive.get(parent)
            if above is not None and vars(above).get(leaf) is module:
                delattr(above, leaf)

    def begin(self, instead: Mapping[str, object] | None = None) -> ModuleType:
        """Import the module that has the functions, in a process that has none yet.

        Args:
            instead: names of modules to the values that they keep, whatever is assigned to them.
        """
        self.end()
        self._instead = instead or {}
        self.serve()
        for name in (*self.sources.used, *self.sources.aliases):
            # Under real vLLM its other modules are the installed ones, which are running.
            if self.sources.owns(name) or _is_simulated():
                sys.modules.pop(name, None)
        return importlib.import_module(self.sources.main)

    def spec(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """How the subject's module of that name is imported; None if that is not its business.

        Raises:
            ModuleNotFoundError: it is what stands below a wrapper, and nothing does.
        """
        sources = self.sources
        if name in sources.aliases:
            return ModuleSpec(name, _Alias(sources.aliases[name]))
        simulated = _is_simulated()
        vllms = name.partition(".")[0] in ROOTS and name not in sources.named
        if vllms and (name in ROOTS or (not simulated and ordinary_spec(name, path) is not None)):
            return None
        found = sources.find(name)
        if vllms and simulated:
            if name == SHIPPED and not isinstance(found, Source):
                unknown_names.append(NOTHING_BELOW)
                raise ModuleNotFoundError(NOTHING_BELOW, name=name)
            # vLLM's packages without a file of their own are the simulation's as they are.
            if not isinstance(found, Source) or not found.text:
                return None
        if not isinstance(found, Source):
            return found
        kind: type[_Own] = _Own
        if vllms and simulated and name != SHIPPED:
            kind = _BehindStub
        elif name in sources.unexecuted:
            kind = _Unexecuted
        package = found.locations is not None
        spec = ModuleSpec(name, _Loader(self, found, kind), is_package=package)
        if package:
            spec.submodule_search_locations = list(found.locations or ())
        return spec

    def run(self, module: ModuleType, source: Source) -> bool:
        """Execute the module unless that has begun; False if it had."""
        if source.name in self._begun:
            return False
        self._begun.add(source.name)
        before = set(vars(module))
        try:
            space = vars(module)
            local = _Space(space, self._instead) if self._instead else space
            exec(self.sources.code(source), space, local)
        except BaseException:
            self._begun.discard(source.name)
            for name in vars(module).keys() - before:
                del vars(module)[name]
            raise
        return True


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


@final
class _Finder:
    """Asks the process that is being simulated."""

    process: OwnModules | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """As the process says."""
        del target
        spec = None if self.process is None else self.process.spec(fullname, path)
        if spec is not None:
            # `from PACKAGE import MODULE` asks the package for a name first.
            parent, _, leaf = fullname.rpartition(".")
            asked = f"it asks {parent} for {leaf!r},"
            unknown_names[:] = [said for said in unknown_names if not said.startswith(asked)]
        return spec


_FINDER: Final = _Finder()


def _is_simulated() -> bool:
    """Whether modules of vLLM and torch are the stubs."""
    return any(isinstance(finder, StubFinder) for finder in sys.meta_path)


@contextlib.contextmanager
def imports_kept(sources: Sources) -> Iterator[None]:
    """Put back, at the end, whatever modules of a subject's names were imported before."""
    process = _FINDER.process
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if sources.owns(name)}
    try:
        yield
    finally:
        if _FINDER.process is not None and _FINDER.process is not process:
            _FINDER.process.step_aside()
        for name in [name for name in sys.modules if sources.owns(name)]:
            del sys.modules[name]
        sys.modules.update(before)
        _FINDER.process = process
        if process is None:
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(_FINDER)


@final
class _Alias(importlib.abc.Loader):
    """Lets a name mean a module that has another."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, _spec: ModuleSpec) -> None:
        """The import system makes one, which nobody gets to see."""

    def exec_module(self, module: ModuleType) -> None:
        """The module that is meant takes the place of the new one."""
        sys.modules[module.__name__] = importlib.import_module(self._target)


@final
class _Loader(importlib.abc.Loader):
    """Makes one module of a process, of one of the kinds below."""

    def __init__(self, process: OwnModules, source: Source, kind: type[_Own]) -> None:
        self.process = process
        self.source = source
        self._kind = kind

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = self._kind(spec.name)
        module.__file__ = self.source.file
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.process.alive[module.__name__] = module
        if type(module) is _Own:
            try:
                self.process.run(module, self.source)
            except BaseException:
                self.process.alive.pop(module.__name__, None)
                raise

    def has(self, leaf: str) -> bool:
        """Whether there is a module of that name below this one."""
        return self.process.sources.find(f"{self.source.name}.{leaf}") is not None

    def known(self, name: str) -> object:
        """What the simulated vLLM has under that name in this place, or `_NONE`."""
        asked = len(unknown_names)
        try:
            spec = ModuleSpec(self.source.name, None)
            return getattr(StubFinder().create_module(spec), name)
        except AttributeError:
            del unknown_names[asked:]
            return _NONE


class _Own(ModuleType):
    """A module of a subject."""


@final
class _Unexecuted(_Own):
    """A package above a subject's file: executed only when a name of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        loader = _loader_of(self)
        if _is_machinery(name) or loader.has(name) or not loader.process.run(self, loader.source):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return ModuleType.__getattribute__(self, name)


@final
class _BehindStub(_Own):
    """A module of a fork of vLLM: it gives the names to which the simulation has no meaning."""

    def __getattribute__(self, name: str) -> Any:
        if _is_machinery(name):
            return ModuleType.__getattribute__(self, name)
        meaning = _loader_of(self).known(name)
        return ModuleType.__getattribute__(self, name) if meaning is _NONE else meaning

    def __getattr__(self, name: str) -> Any:
        loader = _loader_of(self)
        if _is_machinery(name) or loader.has(name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        asked = len(unknown_names)
        try:
            loader.process.run(self, loader.source)
        except Exception as error:
            raise self._unusable(name, error, asked) from None
        try:
            return ModuleType.__getattribute__(self, name)
        except AttributeError:
            raise refuse(self.__name__, name) from None

    def _unusable(self, name: str, error: Exception, asked: int) -> UnknownNameError:
        reason = unknown_names[asked] if len(unknown_names) > asked else f"{error!r}"
        del unknown_names[asked:]
        sentence = (
            f"it asks {self.__name__} for {name!r}, which the simulated vLLM does not have, and "
            f"the subject's own {_loader_of(self).source.file} cannot be executed there: {reason}"
        )
        unknown_names.append(sentence)
        return UnknownNameError(sentence)


def _is_machinery(name: str) -> bool:
    return name.startswith("__") and name != "__version__"


def _loader_of(module: ModuleType) -> _Loader:
    spec = ModuleType.__getattribute__(module, "__spec__")
    assert isinstance(spec.loader, _Loader)
    return spec.loader
