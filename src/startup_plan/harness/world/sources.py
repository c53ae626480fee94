# SPDX-License-Identifier: Apache-2.0
"""Where the modules of a subject lie: in folders, in a wheel, or in one file."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
import zipfile
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Protocol, final

from startup_plan.harness.stubs.modules import ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The source of one module.

    Attributes:
        name: its full name.
        text: what is in the file; nothing for a package that has no file of its own.
        file: where it lies; in a wheel, `WHEEL!MEMBER`.
        locations: where the modules below it lie; None if it is no package.
    """

    name: str
    text: bytes
    file: str
    locations: tuple[str, ...] | None = None


class Tree(Protocol):
    """Modules that belong together."""

    def owns(self, name: str) -> bool:
        """Whether a module of that name is this tree's to give, if there is one."""

    def find(self, name: str) -> Source | ModuleSpec | None:
        """The module of that name; a specification where it is not written in Python."""


@final
class OneModule:
    """A module that stands alone."""

    def __init__(self, source: Source) -> None:
        """Hold its source."""
        self._source = source

    def owns(self, name: str) -> bool:
        """Its own name."""
        return name == self._source.name

    def find(self, name: str) -> Source | None:
        """Its source."""
        return self._source if self.owns(name) else None


@final
class Folders:
    """A package on a file system and all below it, found as Python finds them.

    Args:
        top: the name of the package, or of a module without any below it.
        spec: how Python finds it.
    """

    def __init__(self, top: str, spec: ModuleSpec) -> None:
        """Nothing is looked up yet."""
        self._top = top
        self._specs: dict[str, ModuleSpec | None] = {top: spec}

    def owns(self, name: str) -> bool:
        """The package and every name below it."""
        return name == self._top or name.startswith(f"{self._top}.")

    def find(self, name: str) -> Source | ModuleSpec | None:
        """The module, read from its file."""
        spec = self._spec(name) if self.owns(name) else None
        if spec is None:
            return None
        inside = spec.submodule_search_locations
        locations = None if inside is None else tuple(inside)
        if isinstance(spec.loader, SourceFileLoader):
            return Source(name, spec.loader.get_data(spec.loader.path), spec.loader.path, locations)
        if locations is not None and spec.origin is None:
            return Source(name, b"", locations[0] if locations else "", locations)
        if spec.origin is None or not os.path.isfile(spec.origin):
            return spec
        return importlib.util.spec_from_file_location(name, spec.origin)

    def _spec(self, name: str) -> ModuleSpec | None:
        if name not in self._specs:
            parent, _, leaf = name.rpartition(".")
            above = self._spec(parent)
            inside = None if above is None else above.submodule_search_locations
            self._specs[name] = None if inside is None else PathFinder.find_spec(leaf, list(inside))
        return self._specs[name]


@final
class Beside:
    """Modules that lie beside a file outside any package, as a script would find them.

    Python's own modules and installed ones come first.
    """

    def __init__(self, folder: str) -> None:
        """Nothing is looked up yet."""
        self._folder = folder
        self._tops: dict[str, Folders | None] = {}

    def owns(self, name: str) -> bool:
        """Any name that lies there and nowhere else."""
        return self._below(name) is not None

    def find(self, name: str) -> Source | ModuleSpec | None:
        """The module, read from its file."""
        tree = self._below(name)
        return None if tree is None else tree.find(name)

    def _below(self, name: str) -> Folders | None:
        top = name.partition(".")[0]
        if top not in self._tops:
            spec = None
            if top not in {*ROOTS, *sys.stdlib_module_names} and ordinary_spec(top) is None:
                spec = PathFinder.find_spec(top, [self._folder])
            found = spec is not None and isinstance(spec.loader, SourceFileLoader)
            self._tops[top] = Folders(top, spec) if spec is not None and found else None
        return self._tops[top]


@final
class Wheel:
    """The modules of a wheel, read where they lie.

    Args:
        path: the wheel.
        members: the names of everything in it.
    """

    def __init__(self, path: str, members: Iterable[str]) -> None:
        """Sort out which names are modules and which packages."""
        self._path = path
        self._members = frozenset(name for name in members if name.endswith(".py"))
        self._folders = {
            name[:end] for name in self._members for end, sign in enumerate(name) if sign == "/"
        }
        self._tops = {name.partition("/")[0].removesuffix(".py") for name in self._members}

    def owns(self, name: str) -> bool:
        """Every name below what stands on top in the wheel."""
        return name.partition(".")[0] in self._tops

    def find(self, name: str) -> Source | None:
        """The module, read out of the wheel."""
        place = name.replace(".", "/")
        inside = (f"{self._path}!{place}",)
        if f"{place}/__init__.py" in self._members:
            return self._read(name, f"{place}/__init__.py", inside)
        if f"{place}.py" in self._members:
            return self._read(name, f"{place}.py", None)
        return Source(name, b"", inside[0], inside) if place in self._folders else None

    def _read(self, name: str, member: str, locations: tuple[str, ...] | None) -> Source:
        # Opened anew each time: a descriptor kept open would have its offset shared by every fork.
        with zipfile.ZipFile(self._path) as wheel:
            return Source(name, wheel.read(member), f"{self._path}!{member}", locations)


def ordinary_spec(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """How Python finds a module without the simulation: in the folder we are in, then as installed.

    Args:
        name: its full name.
        path: where to look, for a module of a package.
    """
    where = [os.getcwd(), *sys.path] if path is None else list(path)
    spec = PathFinder.find_spec(name, where)
    if spec is not None and spec.loader is not None:
        return spec
    # A package without a file of its own comes last, after what finders of installations in place
    # have to say; our own finders are no installation.
    for finder in sys.meta_path:
        if not getattr(finder, "__module__", "").startswith("startup_plan."):
            found = finder.find_spec(name, path, None)
            if found is not None and found.loader is not None:
                return found
    return spec
