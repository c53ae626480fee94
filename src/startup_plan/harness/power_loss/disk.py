# SPDX-License-Identifier: Apache-2.0
"""Every state in which a power loss may leave the disk, at every point of a recorded history.

A history is a list of operations as `faults.recording` gives them. After the first k of them, what
an fsync has settled is on the disk; of the rest, a persistence model says which combinations may
be: changes of names that survive or not, and data that is absent, zero-filled, garbage, cut at any
byte, or whole. What counts as legal follows ALICE (Pillai et al., OSDI'14): a state is legal if it
contains everything that what it contains depends on.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from typing import TYPE_CHECKING, Final, NamedTuple, final

from .models import Model, StateId, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from startup_plan.harness.operations.operation import Operation

_HARMLESS: Final = frozenset({
    "read", "pread", "stat", "lstat", "fstat", "access", "listdir", "scandir", "readlink",
    "close", "chmod", "fchmod", "chown", "fchown", "utime",
})  # fmt: skip


MOST_COMBINATIONS: Final = 8000
"""Where several files wait for their data at once, more combinations than this are not all tried:
then all but one of the files are absent or whole. Files are read one by one, so that two damaged
ones show nothing that either does not show alone."""

_Shape = tuple[str, bytes]


class UnmodelledError(Exception):
    """An operation to which the model gives no meaning; no verdict may rest on it."""


class _Name(NamedTuple):
    """A change of one name in one folder, waiting to be settled."""

    folder: int
    name: str
    inode: int | None  # None: the name goes away
    group: int  # halves of one rename share a group
    replaces: bool


class _Write(NamedTuple):
    """A change of the data of a file, waiting to be settled."""

    offset: int
    data: bytes | None  # None: the file is cut to `offset` bytes


@final
class Disk:
    """What is settled and what waits, as a history goes on.

    Args:
        start: the disk before the history, all of it settled.
        root: the folder that the paths of the operations lie in.
        model: what an fsync settles.
        cuts: number of places at which a write may be cut; every one if None.
    """

    def __init__(
        self,
        start: Mapping[str, bytes | None],
        root: str,
        model: Model,
        cuts: int | None = None,
    ) -> None:
        """Build the settled tree."""
        self._cuts = cuts
        self._root = os.path.normpath(root)
        self._model = model
        self._folders: dict[int, dict[str, int]] = {0: {}}
        self._settled: dict[int, dict[str, int]] = {0: {}}
        self._contents: dict[int, bytearray] = {}
        self._kept: dict[int, bytes] = {}
        self._writes: dict[int, list[_Write]] = {}
        self._names: list[_Name] = []
        self._open: dict[int, tuple[int, int]] = {}
        self._next = 1
        self._group = 0
        for path in sorted(start):
            folder, name = self._place(os.path.join(self._root, path))
            inode = self._new(start[path])
            self._folders[folder][name] = self._settled[folder][name] = inode

    def _new(self, data: bytes | None) -> int:
        inode, self._next = self._next, self._next + 1
        if data is None:
            self._folders[inode], self._settled[inode] = {}, {}
        else:
            self._contents[inode], self._kept[inode] = bytearray(data), data
            self._writes[inode] = []
        return inode

    def _place(self, path: str) -> tuple[int, str]:
        inside = os.path.relpath(path, self._root).split(os.sep)
        folder = 0
        for part in inside[:-1]:
            folder = self._folders[folder][part]
        return folder, inside[-1]

    def _find(self, path: str) -> int | None:
        if os.path.normpath(path) == self._root:
            return 0
        try:
            folder, name = self._place(path)
        except KeyError:
            return None
        return self._folders[folder].get(name)

    def apply(self, operation: Operation) -> bool:
        """Let the next operation of the history happen; False if it can change no state.

        Raises:
            UnmodelledError: the model does not know what it does.
        """
        name = operation.name
        if operation.error is not None or name in _HARMLESS:
            if name == "close":
                self._open.pop(operation.fd, None)
            return False
        method = getattr(self, f"_do_{name}", None)
        if method is None:
            raise UnmodelledError(
                f"{operation} has no meaning in harness/power_loss/disk.py; give it one"
            )
        method(operation)
        return True

    def _do_open(self, operation: Operation) -> None:
        inode = None if operation.is_unnamed else self._find(operation.path)
        if inode is None:
            if not operation.may_create:
                raise UnmodelledError(f"{operation} opened what the model does not know")
            inode = self._new(b"")
            if not operation.is_unnamed:
                self._wait(operation.path, inode)
        elif operation.flags & os.O_TRUNC and inode in self._contents and self._contents[inode]:
            self._change(inode, _Write(0, None))
        end = len(self._contents.get(inode, b"")) if operation.flags & os.O_APPEND else 0
        self._open[operation.fd] = (inode, end)

    def _do_write(self, operation: Operation) -> None:
        inode, offset = self._open[operation.fd]
        done = operation.data[: operation.result]
        self._change(inode, _Write(offset, done))
        self._open[operation.fd] = (inode, offset + len(done))

    def _do_pwrite(self, operation: Operation) -> None:
        inode, _ = self._open[operation.fd]
        self._change(inode, _Write(operation.size, operation.data[: operation.result]))

    def _do_truncate(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is None:
            raise UnmodelledError(f"{operation} cut what the model does not know")
        self._change(inode, _Write(operation.size, None))

    def _do_ftruncate(self, operation: Operation) -> None:
        self._change(self._open[operation.fd][0], _Write(operation.size, None))

    def _do_posix_fallocate(self, operation: Operation) -> None:
        inode, _ = self._open[operation.fd]
        if operation.size > len(self._contents[inode]):
            self._change(inode, _Write(operation.size, None))

    def _do_fsync(self, operation: Operation) -> None:
        inode = self._open[operation.fd][0]
        if inode in self._folders:
            if not self._model.sync_settles_names:
                self._settle_names(lambda change: change.folder == inode)
        else:
            self._settle_data(inode)
        if self._model.sync_settles_names:
            self._settle_names(lambda _: True)

    _do_fdatasync = _do_fsync

    def _do_rename(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is None:
            raise UnmodelledError(f"{operation} moved what the model does not know")
        if inode == self._find(operation.target):
            return  # two names of one file: POSIX lets both be
        self._group += 1
        self._wait(operation.target, inode, group=self._group)
        self._wait(operation.path, None, group=self._group)

    _do_replace = _do_rename

    def _do_link(self, operation: Operation) -> None:
        opened = self._open.get(operation.fd)
        inode = self._find(operation.path) if opened is None else opened[0]
        if inode is None:
            raise UnmodelledError(f"{operation} linked what the model does not know")
        self._wait(operation.target, inode)

    def _do_unlink(self, operation: Operation) -> None:
        self._wait(operation.path, None)

    _do_rmdir = _do_unlink

    def _do_mkdir(self, operation: Operation) -> None:
        self._wait(operation.path, self._new(None))

    def _wait(self, path: str, inode: int | None, group: int = 0) -> None:
        folder, name = self._place(path)
        if not group:
            self._group += 1
            group = self._group
        replaces = inode is not None and name in self._folders[folder]
        if inode is None:
            self._folders[folder].pop(name, None)
        else:
            self._folders[folder][name] = inode
        self._names.append(_Name(folder, name, inode, group, replaces))

    def _change(self, inode: int, write: _Write) -> None:
        _perform(self._contents[inode], write)
        self._writes[inode].append(write)

    def _settle_data(self, inode: int) -> None:
        self._kept[inode] = bytes(self._contents[inode])
        self._writes[inode].clear()

    def _settle_names(self, concerned: Callable[[_Name], bool]) -> None:
        waiting = []
        for change in self._names:
            if concerned(change):
                _rename(self._settled[change.folder], change)
                if self._model.replace_settles_data and change.replaces:
                    self._settle_data(change.inode or 0)
            else:
                waiting.append(change)
        self._names = waiting

    def states(self) -> Iterator[tuple[str, str, Tree]]:
        """Every legal state at this point, as (names, data, tree)."""
        for names, survived in self._survivals():
            folders = {inode: dict(entries) for inode, entries in self._settled.items()}
            flushed = set()
            for change in survived:
                _rename(folders[change.folder], change)
                if self._model.replace_settles_data and change.replaces:
                    flushed.add(change.inode)
            reached = sorted(set(_reach(folders)) & self._contents.keys())
            unsettled = [i for i in reached if self._writes[i] and i not in flushed]
            fixed = {
                i: bytes(self._contents[i]) if i in flushed else self._kept[i] for i in reached
            }
            for choice in _choices([list(self._shapes(i)) for i in unsettled]):
                contents = fixed | {i: shape[1] for i, shape in zip(unsettled, choice, strict=True)}
                data = "+".join(shape[0] for shape in choice) or "-"
                yield names, data, _tree(folders, contents)

    def _survivals(self) -> Iterator[tuple[str, list[_Name]]]:
        """Which waiting changes of names survive, with a stable spelling for each choice."""
        groups: list[list[_Name]] = []
        for change in self._names:
            if groups and not self._model.halves and groups[-1][0].group == change.group:
                groups[-1].append(change)
            else:
                groups.append([change])
        if self._model.names_in_order:
            for count in range(len(groups) + 1):
                yield str(count), [change for group in groups[:count] for change in group]
            return
        for bits in itertools.product("01", repeat=len(groups)):
            chosen = [g for g, bit in zip(groups, bits, strict=True) if bit == "1"]
            yield "".join(bits) or "-", [change for group in chosen for change in group]

    def _shapes(self, inode: int) -> Iterator[_Shape]:
        """What the data of a file may be: its waiting writes survive in order, the last in part."""
        kept, writes = self._kept[inode], self._writes[inode]
        for index, write in enumerate(writes):
            before = bytearray(kept)
            for earlier in writes[:index]:
                _perform(before, earlier)
            head = "" if len(writes) == 1 else f"{index}:"
            yield f"{head}absent", bytes(before)
            if write.data is None:
                continue
            for label, data in _damaged(write.data, self._cuts):
                made = bytearray(before)
                _perform(made, _Write(write.offset, data))
                yield f"{head}{label}", bytes(made)
        yield "whole", bytes(self._contents[inode])


def _choices(options: list[list[_Shape]]) -> Iterator[tuple[_Shape, ...]]:
    """One shape for each file: every combination, or beyond a bound those with one damaged file."""
    if math.prod(map(len, options)) <= MOST_COMBINATIONS:
        yield from itertools.product(*options)
        return
    ends = [[shapes[0], shapes[-1]] for shapes in options]
    for index, shapes in enumerate(options):
        yield from itertools.product(*ends[:index], shapes[1:-1], *ends[index + 1 :])
    yield from itertools.product(*ends)


def _damaged(data: bytes, most: int | None) -> Iterator[_Shape]:
    yield "zeros", bytes(len(data))
    yield "garbage", random.Random(len(data)).randbytes(len(data))  # noqa: S311  # rubbish, not a secret
    step = 1 if most is None else max(1, len(data) // most)
    for cut in range(1, len(data), step):
        yield f"torn:{cut}", data[:cut]


def _perform(contents: bytearray, write: _Write) -> None:
    if write.data is None:
        missing = write.offset - len(contents)
        contents[write.offset :] = bytes(max(0, missing))
        return
    if len(contents) < write.offset:
        contents.extend(bytes(write.offset - len(contents)))
    contents[write.offset : write.offset + len(write.data)] = write.data


def _rename(entries: dict[str, int], change: _Name) -> None:
    if change.inode is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.inode


def _reach(folders: Mapping[int, Mapping[str, int]], start: int = 0) -> Iterator[int]:
    for inode in folders[start].values():
        yield inode
        if inode in folders:
            yield from _reach(folders, inode)


def _tree(
    folders: Mapping[int, Mapping[str, int]], contents: Mapping[int, bytes], start: int = 0
) -> Tree:
    tree: Tree = {}
    for name, inode in folders[start].items():
        if inode in folders:
            tree[name] = None
            below = _tree(folders, contents, inode)
            tree |= {f"{name}{os.sep}{path}": data for path, data in below.items()}
        else:
            tree[name] = contents[inode]
    return tree


def crash_states(
    workload: str,
    start: Mapping[str, bytes | None],
    root: str,
    history: Sequence[Operation],
    model: Model,
    cuts: int | None = None,
) -> Iterator[tuple[StateId, int, Tree]]:
    """Every legal state of the disk after a power loss at any point of `history`.

    Args:
        workload: name of the history, for the ids.
        start: the disk before it.
        root: the folder that the paths lie in.
        history: the operations.
        model: the persistence model.
        cuts: number of places at which a write may be cut; every one if None.

    Yields:
        The id, the number of operations done, and the tree; nothing for a point at which no other
        state is possible than at the point before.

    Raises:
        UnmodelledError: the history contains an operation without a meaning.
    """
    disk = Disk(start, root, model, cuts)
    for done in range(len(history) + 1):
        moved = done == 0 or disk.apply(history[done - 1])
        if moved or done == len(history):
            for names, data, tree in disk.states():
                yield StateId(workload, str(done), names, data, model.name), done, tree
