# SPDX-License-Identifier: Apache-2.0
"""Power losses during and after a subject's saves, judged by what had been promised by then.

A workload is a history of saves of one or two engines that share a folder. Each legal state of the
disk is laid in a fresh folder, and each engine boots there. What is judged follows the promise: a
save that has returned promises its plan; until then the old plan or the new one must be there.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import os
import random
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final
from unittest import mock

from startup_plan.harness.contract.violation import NeverReachedError
from startup_plan.harness.operations.faults import fail_at, kill_at, recording
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.stubs.units import GIB, gib
from startup_plan.harness.world.reader import Reader, plain_engine

from .disk import crash_states
from .models import MODELS, StateId, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from startup_plan.harness.operations.faults import Trace
    from startup_plan.harness.operations.operation import Operation
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.reader import Reading
    from startup_plan.harness.world.world import World

WORKLOADS: Final = ("first-save", "overwrite", "two-engines", "after-a-kill", "failed-fsync")
NEIGHBOUR: Final = 2 * GIB
LARGEST: Final = 3500
"""Distinct disks of one workload that are all tried; beyond that, cuts are drawn from a seed."""

_VALUES: Final = (20 * GIB + 4097, 9 * GIB + 8191)
"""Bytes that the earlier plan of an engine holds, and the later one."""


class Step(NamedTuple):
    """One save of a workload.

    Attributes:
        engine: number of the engine that saves.
        value: bytes handed over.
        first: number of operations before it.
        last: number of operations after it.
    """

    engine: int
    value: int
    first: int
    last: int


class Found(NamedTuple):
    """A legal state.

    Attributes:
        state: its name.
        done: number of operations that had been done.
        tree: the disk.
    """

    state: StateId
    done: int
    tree: Tree


@final
class CrashTrial:
    """A workload, recorded once, whose every legal crash state can be booted.

    Args:
        world: an entered world in which nothing has happened.
        workload: one of `WORKLOADS`.
        scratch: an empty folder on a fast disk; each state is laid there anew.
        largest: distinct disks that are all tried.
        seed: of the sample, where there are more.
        cuts: number of places at which a write may be cut; every one if None.

    Attributes:
        counts: (model, verdict) -> states.
        tried: boots from distinct disks.
    """

    def __init__(
        self,
        world: World,
        workload: str,
        scratch: Path | str,
        largest: int = LARGEST,
        seed: int = 0,
        cuts: int | None = None,
    ) -> None:
        """Let the workload happen on a healthy disk and note its operations."""
        self.world = world
        self.workload = workload
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.tried = 0
        self._scratch = str(scratch)
        self._largest = largest
        self._cuts = cuts
        self._random = random.Random(seed)  # noqa: S311  # a sample, not a secret
        self._root = os.path.dirname(world.cache_root)
        self._engines = [_engine("engine A", "aaaaaaaaaa")]
        if workload == "two-engines":
            self._engines.append(_engine("engine B", "bbbbbbbbbb"))
        self._before: list[int | None] = [None] * len(self._engines)
        if workload in {"overwrite", "after-a-kill", "failed-fsync"}:
            self._save(0, _VALUES[0])
            self._before[0] = _VALUES[0]
        if workload == "after-a-kill":
            self._leave_something()
        self.start = _tree_of(self._root)
        self.history: list[Operation] = []
        self.steps: list[Step] = []
        for number in range(len(self._engines)):
            value = _VALUES[1] + number
            first = len(self.history)
            fault = _failing_fsync(self._root) if workload == "failed-fsync" else None
            self.history += self._save(number, value, fault)
            self.steps.append(Step(number, value, first, len(self.history)))
        if not any(op.opens_for_writing for op in self.history):
            raise NeverReachedError("a save on a healthy disk that writes what can be followed")

    def _save(self, number: int, value: int, fault: Any = None) -> list[Operation]:
        """One save of an engine; a neighbour makes sure that no earlier plan is applied."""
        trace = recording(self._root) if fault is None else fault
        device = self.world.devices[0]
        # Twice a neighbour: the later save must not find its own earlier plan applicable.
        device.tenants["neighbour"] = NEIGHBOUR * (1 + self.world.boots)
        with patched(self._root, self.world.subject):
            result = self.world.boot(self._engines[number], during_save=trace, suggestion=value)
        del device.tenants["neighbour"]
        # Under a fault a save may well raise, which is SAVE-01's matter.
        if (result.raised is not None and fault is None) or result.applied is not None:
            raise NeverReachedError(f"a save on a healthy disk: {result}")
        return list(trace.operations)

    def _leave_something(self) -> None:
        """Kill a save just before it publishes, so that its temporary file stays behind."""
        clean = self._save(0, _VALUES[0])
        last = next((op.index for op in clean if op.name in {"rename", "replace", "link"}), 0)
        if last:
            self._save(0, _VALUES[0] + 1, kill_at(self._root, last))

    def states(self) -> Iterator[Found]:
        """Every legal state of every model, in a fixed order."""
        end = len(self.history)
        for model in MODELS.values():
            for state, done, tree in crash_states(
                self.workload, self.start, self._root, self.history, model, self._cuts
            ):
                yield Found(state, done, tree)
                if done == end:
                    # The last operation is done: the call may be about to return, or have returned.
                    yield Found(state._replace(k="returned"), done, tree)

    def judge(self, requirement: str, only: StateId | None = None) -> Iterator[tuple[StateId, str]]:
        """Boot from every state that can break a requirement.

        Args:
            requirement: SAVE-06, which is about saves that have returned, or SAVE-07, about the one
                that has not.
            only: judge this state alone.

        Yields:
            State and what was wrong, for each that breaks it.
        """
        disks = self._chosen(requirement, only)
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                mock.patch.object(self.world, "cache_root", os.path.join(self._scratch, "cache"))
            )
            readers = [stack.enter_context(Reader(self.world, e)) for e in self._engines]
            for states in disks:
                outcomes: dict[int, str] = {}
                for found, promised in states:
                    for step in self.steps:
                        if (step.engine in promised) != (requirement == "SAVE-06"):
                            continue
                        if step.engine not in outcomes:
                            _lay(found.tree, self._scratch)
                            outcomes[step.engine] = _outcome(readers[step.engine].look())
                            self.tried += 1
                        yield from self._judge(found.state, step, promised, outcomes[step.engine])

    def _promises(self, found: Found) -> frozenset[int]:
        """Engines whose save had returned, and with that promised its plan."""
        if self.workload == "failed-fsync":
            return frozenset()  # such a save has every right to have failed
        before = found.done + (1 if found.state.k == "returned" else 0)
        return frozenset(step.engine for step in self.steps if step.last < before)

    def _chosen(
        self, requirement: str, only: StateId | None
    ) -> list[list[tuple[Found, frozenset[int]]]]:
        """For each distinct disk the states that end in it, and what had been promised by then."""
        distinct: dict[bytes, list[tuple[Found, frozenset[int]]]] = {}
        for found in self.states():
            promised = self._promises(found)
            if (only is None or found.state == only) and (requirement == "SAVE-07" or promised):
                distinct.setdefault(_digest(found.tree), []).append((found, promised))
        if len(distinct) > self._largest:
            # Whole, absent, zeroed and garbled data stay in; of the cuts a sample is drawn.
            torn = [
                digest
                for digest, states in distinct.items()
                if all("torn" in found.state.data for found, _ in states)
            ]
            room = max(0, self._largest - (len(distinct) - len(torn)))
            for digest in set(torn) - set(self._random.sample(torn, min(room, len(torn)))):
                del distinct[digest]
        return list(distinct.values())

    def _judge(
        self, state: StateId, step: Step, promised: frozenset[int], outcome: str
    ) -> Iterator[tuple[StateId, str]]:
        old = self._before[step.engine]
        verdict = _verdict(outcome, old, step.value)
        self.counts[state.model, verdict] += 1
        if step.engine in promised:
            right, due = verdict == "new", f"the save of {gib(step.value)} had returned"
        else:
            right = verdict in {"old", "new"} or (verdict == "none" and old is None)
            due = f"{gib(old)} had been saved before"
        if not right:
            name = self._engines[step.engine].name
            yield state, f"{due}; after the power loss {name} {_told(outcome)}"


def _engine(name: str, config_hash: str) -> Engine:
    """An engine that leaves room on its device for several neighbours; told apart by its hash."""
    engine = plain_engine(name)
    engine.set("cache_config.gpu_memory_utilization", 0.5)
    engine.hash_override = config_hash
    return engine


def _failing_fsync(root: str) -> Trace:
    """The first fsync of a file fails: its data may be lost, whatever a later one says."""

    def of_a_file(operation: Operation) -> bool:
        return operation.name in {"fsync", "fdatasync"} and not os.path.isdir(operation.path)

    return fail_at(root, 1, "EIO", matching=of_a_file)


def _outcome(reading: Reading) -> str:
    if reading.raised is not None:
        return f"raised {type(reading.raised).__name__}: {str(reading.raised)[:80]}"
    return "none" if reading.applied is None else repr(reading.applied)[:40]


def _verdict(outcome: str, old: int | None, new: int) -> str:
    if outcome.startswith("raised"):
        return "raised"
    if outcome == "none":
        return "none"
    return {repr(new): "new", repr(old): "old"}.get(outcome, "wrong")


def _told(outcome: str) -> str:
    if outcome == "none":
        return "found no plan"
    return outcome if outcome.startswith("raised") else f"applied {outcome} bytes"


def _digest(tree: Tree) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for path in sorted(tree):
        data = tree[path]
        made.update(f"{path}\0{-1 if data is None else len(data)}\0".encode())
        made.update(data or b"")
    return made.digest()


def _lay(tree: Tree, folder: str) -> None:
    """Make `folder` exactly `tree`, whatever lay there."""
    there = set(_folders_of(tree, folder))
    for path in sorted(tree.keys() - there):
        data, where = tree[path], os.path.join(folder, path)
        if data is None:
            os.mkdir(where)
        else:
            with open(where, "wb", 0) as stream:
                stream.write(data)


def _folders_of(tree: Tree, folder: str, inside: str = "") -> Iterator[str]:
    """The folders of `tree` that are there already; everything else is removed."""
    with os.scandir(os.path.join(folder, inside)) as entries:
        for entry in entries:
            path = f"{inside}{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
            elif tree.get(path, b"") is None:
                yield path
                yield from _folders_of(tree, folder, f"{path}{os.sep}")
            else:
                shutil.rmtree(entry.path)


def _tree_of(root: str) -> Tree:
    tree: Tree = {}
    for folder, folders, names in os.walk(root):
        for name in folders:
            tree[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as stream:
                tree[os.path.relpath(path, root)] = stream.read()
    return tree
