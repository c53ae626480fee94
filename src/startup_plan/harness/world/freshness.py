# SPDX-License-Identifier: Apache-2.0
"""Whether executed modules are still as a new process would have them.

A simulated boot is a new process, so it needs modules in which nothing of an earlier boot is left.
Executing all of them again costs as much as the boot itself. Most modules hold nothing that could
change: constants, functions, classes. This file proves that of a set of modules once, and each time
that nothing has changed in them, nor in what they asked when they were executed (`watching`); where
it cannot, the modules are executed again.
"""

from __future__ import annotations

import functools
import operator
import re
import types
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.platform import StubPlatform
from startup_plan.harness.stubs.vllm_module import StubLogger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .watching import Watch

_CONSTANT: Final = (
    type(None), bool, int, float, complex, str, bytes, type(...), re.Pattern, types.ModuleType,
    types.BuiltinFunctionType, types.MemberDescriptorType, types.GetSetDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.GenericAlias, types.UnionType,
    types.CodeType,
)  # fmt: skip
_MACHINERY: Final = frozenset({
    "__builtins__", "__spec__", "__loader__", "__annotations__", "__weakref__", "__dict__",
    "__annotate__", "__annotations_cache__", "__conditional_annotations__", "__abstractmethods__",
    "_abc_impl",
})  # fmt: skip
_LRU: Final = functools._lru_cache_wrapper


class _UnprovableError(Exception):
    """A value about which it cannot be said whether it will change."""


@final
class Pristine:
    """A set of modules right after they were executed.

    Args:
        modules: the modules, freshly executed.
        watch: what they asked their process meanwhile.
    """

    __slots__ = ("_bare", "_caches", "_names", "_spaces", "_watch", "provable")

    def __init__(self, modules: Iterable[types.ModuleType], watch: Watch) -> None:
        """Take stock of everything that could change."""
        modules = list(modules)
        self._watch = watch
        self._names = frozenset(module.__name__ for module in modules)
        self._spaces: list[tuple[Any, list[Any], list[Any]]] = []
        self._bare: list[types.FunctionType] = []
        self._caches: list[Any] = []
        self.provable = True
        try:
            for module in modules:
                self._space(vars(module), set())
        except _UnprovableError:
            self.provable = False

    def renew(self) -> bool:
        """Empty the caches; True if everything is then as it was right after execution."""
        if not self.provable or not self._watch.holds():
            return False
        for cache in self._caches:
            cache.cache_clear()
        if any(map(vars, self._bare)):
            return False
        for space, names, values in self._spaces:
            held = space.values() if hasattr(space, "values") else space
            if len(space) != len(values) or not (
                list(space) == names and all(map(operator.is_, held, values))
            ):
                return False
        return True

    def _space(self, space: Any, seen: set[int]) -> None:
        self._spaces.append((space, list(space), list(space.values())))
        for name, value in list(space.items()):
            if name not in _MACHINERY:
                self._admit(value, seen)

    def _admit(self, value: Any, seen: set[int]) -> None:
        if id(value) in seen or isinstance(value, _CONSTANT):
            return
        seen.add(id(value))
        home = getattr(type(value), "__module__", "")
        if isinstance(value, _LRU):
            self._caches.append(value)
            self._function(value.__wrapped__, seen)
        elif isinstance(value, types.FunctionType):
            self._function(value, seen)
        elif isinstance(value, type):
            if value.__module__ in self._names:
                self._space(value.__dict__, seen)
                for kind in (*value.__mro__[1:], type(value)):
                    self._admit(kind, seen)
        elif isinstance(value, (staticmethod, classmethod)):
            self._admit(value.__func__, seen)
        elif isinstance(value, property):
            for part in (value.fget, value.fset, value.fdel):
                self._admit(part, seen)
        elif type(value) in {tuple, frozenset}:
            for item in value:
                self._admit(item, seen)
        elif type(value) in {dict, list, set}:
            self._container(value)
        elif isinstance(value, (StubLogger, StubPlatform)) or home in {"typing", "__future__"}:
            return
        else:
            raise _UnprovableError(repr(type(value)))

    def _function(self, function: Any, seen: set[int]) -> None:
        if function.__module__ not in self._names:
            return
        state = {k: v for k, v in vars(function).items() if k not in {"__wrapped__", "__final__"}}
        if function.__closure__ is not None or state:
            raise _UnprovableError(function.__qualname__)
        if vars(function):
            space = vars(function)
            self._spaces.append((space, list(space), list(space.values())))
        else:
            self._bare.append(function)
        defaults = (function.__defaults__ or ()) + tuple((function.__kwdefaults__ or {}).values())
        for default in defaults:
            if type(default) in {dict, list, set}:
                self._container(default)
            else:
                self._admit(default, seen)

    def _container(self, value: Any) -> None:
        if not _plain(value):
            raise _UnprovableError("a container of something else than plain values")
        self._take_stock(value)

    def _take_stock(self, value: Any) -> None:
        """Note a container and those inside it: what they hold, in which order, by identity."""
        if type(value) is dict:
            self._spaces.append((value, list(value), list(value.values())))
            inside: Iterable[Any] = value.values()
        elif type(value) in {list, set, tuple, frozenset}:
            self._spaces.append((value, list(value), list(value)))
            inside = value
        else:
            return
        for item in inside:
            self._take_stock(item)


def _plain(value: Any) -> bool:
    if type(value) is dict:
        return all(_plain(key) and _plain(item) for key, item in value.items())
    if type(value) in {list, tuple, set, frozenset}:
        return all(map(_plain, value))
    return type(value) in {str, int, float, bool, bytes, type(None)}
