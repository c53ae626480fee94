# SPDX-License-Identifier: Apache-2.0
"""Tries many variants of a plan's bytes and keeps what should not have come of them.

What may be applied depends on what is free: a plan is a pair, a value and the free memory at which
it was measured. So every variant is looked up at falling amounts of free memory, and at each only
values of those plans are legal whose baseline it reaches. One byte below the lowest baseline none
is, which shows a baseline that damage has lowered. Once a variant is refused, less memory is not
tried, because more memory never turns an application into a refusal (GATE-04).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple, Self, final

from startup_plan.harness.stubs.units import gib
from startup_plan.harness.world.reader import Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.reader import Saved
    from startup_plan.harness.world.world import World

    from .variants import Variant


class Finding(NamedTuple):
    """A variant of which something came that should not have.

    Attributes:
        variant: its name.
        free: free memory in bytes of the look-up.
        reading: what came of it.
    """

    variant: str
    free: int
    reading: Reading

    def __str__(self) -> str:
        """Two clauses of a story."""
        return f"{self.variant}; with {gib(self.free)} free, {self.reading}"


@final
class Sweep:
    """What came of all variants of one kind.

    Attributes:
        kind: what was done to the bytes.
        saved: the plans that it was done to.
        tried: number of variants.
        raised: those of which the look-up raised.
        unsaved: those of which a value was applied that no boot had saved for that free memory.
    """

    __slots__ = ("kind", "raised", "saved", "tried", "unsaved")

    def __init__(self, kind: str, saved: Sequence[Saved]) -> None:
        """Nothing has been tried."""
        self.kind = kind
        self.saved = tuple(saved)
        self.tried = 0
        self.raised: list[Finding] = []
        self.unsaved: list[Finding] = []

    def story(self, findings: Sequence[Finding]) -> str:
        """A first finding that a person can follow, and how many there are."""
        worst = max(findings, key=_weight)
        plans = "; ".join(str(plan) for plan in self.saved)
        count = f"{len(findings)} of {self.tried} variants end like that ({self.kind})"
        return f"{plans}; {worst}\n{count}"


def _weight(finding: Finding) -> tuple[bool, int]:
    """How bad: the most that a device could be taken to have, before what no device has."""
    applied = finding.reading.applied
    size = applied if type(applied) is int else 0
    return size <= finding.free, size if size <= finding.free else -size


@final
class VariantReader:
    """Looks up one variant after the other at the path of a plan. To be entered.

    Args:
        world: an entered world.
        engine: what boots.
        saved: the plans that boots of `engine` have saved under its key, the one that lies there
            first.
    """

    def __init__(self, world: World, engine: Engine, saved: Sequence[Saved]) -> None:
        """Nothing is open yet."""
        self._world = world
        self._engine = engine
        self._saved = tuple(saved)
        self._levels: list[tuple[int, frozenset[int], Reader]] = []
        self._exit = contextlib.ExitStack()
        self._fd = -1

    def __enter__(self) -> Self:
        """Open the file, and prepare a rank for each amount of free memory."""
        path = self._saved[0].path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._exit.callback(os.close, self._fd)
        baselines = sorted({plan.baseline for plan in self._saved}, reverse=True)
        for free in (*baselines, baselines[-1] - 1):
            legal = frozenset(plan.kv_bytes for plan in self._saved if plan.baseline <= free)
            reader = self._exit.enter_context(Reader(self._world, self._engine, free=free))
            if self._gate_holds(reader, legal):
                self._levels.append((free, legal, reader))
        return self

    def __exit__(self, *_: object) -> None:
        """Put the undamaged plan back, and close."""
        self._put(self._saved[0].data)
        self._exit.close()

    def read(self, variant: Variant) -> Finding | None:
        """Look up a variant; what should not have come of it, or None."""
        self._put(variant.data)
        for free, legal, reader in self._levels:
            reading = reader.look()
            if reading.raised is not None:
                return Finding(variant.name, free, reading)
            if reading.applied is None:
                return None
            if reading.applied not in legal:
                return Finding(variant.name, free, reading)
        return None

    def _gate_holds(self, reader: Reader, legal: frozenset[int]) -> bool:
        """Whether no undamaged plan is applied where it must not be.

        Otherwise that is a fault of the gate (GATE-01), and would be told of every variant here.
        """
        for plan in self._saved:
            self._put(plan.data)
            applied = reader.look().applied
            if applied is not None and applied not in legal:
                return False
        return True

    def _put(self, data: bytes) -> None:
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))


def sweep(
    world: World, engine: Engine, kind: str, saved: Sequence[Saved], variants: Iterable[Variant]
) -> Sweep:
    """Look up every variant.

    Args:
        world: an entered world.
        engine: what boots.
        kind: how the outcome is called.
        saved: as for `VariantReader`.
        variants: what is put in the place of the plan, one after the other.
    """
    done = Sweep(kind, saved)
    with VariantReader(world, engine, saved) as bench:
        for variant in variants:
            done.tried += 1
            found = bench.read(variant)
            if found is not None:
                (done.unsaved if found.reading.raised is None else done.raised).append(found)
    return done
