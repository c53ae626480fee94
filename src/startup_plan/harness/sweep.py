# SPDX-License-Identifier: Apache-2.0
"""Tries many variants of a plan's bytes and keeps what should not have come of them.

What may be applied depends on what is free. A plan is a pair: a value, and the free memory at which
it was measured. So every variant is looked up at falling amounts of free memory, and at each only
values of those plans are legal whose baseline it reaches. One byte below the lowest baseline nothing
is: that shows a baseline which damage has lowered. Once a variant is refused, less memory is not
tried, because more memory never turns an application into a refusal (GATE-04).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple, final

from .boot import gib
from .reader import Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .corrupt import Variant
    from .engine import Engine
    from .reader import Saved
    from .world import World


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
        count = f"so did {len(findings) - 1} more of" if len(findings) > 1 else "one of"
        return f"{plans}; {worst}\n{count} {self.tried} variants tried ({self.kind})"


def _weight(finding: Finding) -> int:
    """How bad: the more memory was handed out, the worse."""
    applied = finding.reading.applied
    return applied if type(applied) is int and applied < 2**63 else 0


def sweep(
    world: World, engine: Engine, kind: str, saved: Sequence[Saved], variants: Iterable[Variant]
) -> Sweep:
    """Look up every variant at the path of the first plan.

    Args:
        world: an entered world.
        engine: what boots.
        kind: how the outcome is called.
        saved: the plans that boots of `engine` have saved under its key.
        variants: what is put in their place, one after the other.
    """
    done = Sweep(kind, saved)
    path = saved[0].path
    with contextlib.ExitStack() as stack:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        stack.callback(os.close, fd)
        levels = _levels(world, engine, fd, saved, stack)
        for variant in variants:
            done.tried += 1
            _put(fd, variant.data)
            for free, legal, reader in levels:
                reading = reader.look()
                if reading.raised is not None:
                    done.raised.append(Finding(variant.name, free, reading))
                    break
                if reading.applied is None:
                    break
                if reading.applied not in legal:
                    done.unsaved.append(Finding(variant.name, free, reading))
                    break
        _put(fd, saved[0].data)
    return done


def _levels(
    world: World, engine: Engine, fd: int, saved: Sequence[Saved], stack: contextlib.ExitStack
) -> list[tuple[int, frozenset[int], Reader]]:
    """Falling amounts of free memory, and what may be applied at each.

    One at which an undamaged plan is applied where it must not be is left out: that is a fault of
    the gate (GATE-01), and would be told of every variant here.
    """
    levels = []
    baselines = sorted({plan.baseline for plan in saved}, reverse=True)
    for free in (*baselines, baselines[-1] - 1):
        legal = frozenset(plan.kv_bytes for plan in saved if plan.baseline <= free)
        reader = stack.enter_context(Reader(world, engine, free=free))
        for plan in saved:
            _put(fd, plan.data)
            reading = reader.look()
            if reading.applied is not None and reading.applied not in legal:
                break
        else:
            levels.append((free, legal, reader))
    return levels


def _put(fd: int, data: bytes) -> None:
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
