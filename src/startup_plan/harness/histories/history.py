# SPDX-License-Identifier: Apache-2.0
"""What the *life* machine remembers of its boots: who saved what, and who touched which file since.

It knows nothing of keys or of what lies in a file. A boot is known by its inputs, a file by its
name and by when it was last changed.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from startup_plan.harness.stubs.units import GIB
from startup_plan.support.plan_files import is_plan

if TYPE_CHECKING:
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

Base: TypeAlias = tuple[object, ...]
"""Everything that makes two boots the same one but for the utilization."""

Key: TypeAlias = tuple[Base, float]
"""A base and a utilization."""

# The clock of a memory file system ticks every few milliseconds, which is several boots: a file is
# seen to have been rewritten because its time is no longer this one (2001, in seconds).
_LONG_AGO: Final = 1_000_000_000


def base_of(world: World, engine: Engine, rank: int) -> Base:
    """The base of a boot of `rank` in the world as it is."""
    return (
        engine.name,
        rank,
        engine.heavier_weights,
        repr(sorted(engine.truth.items())),
        world.traits(world.device_of(engine, rank)),
        world.runtime.versions(),
    )


@final
class Saved:
    """What a boot saved, to be expected of later boots.

    Args:
        value: KV-cache size in bytes.
        baseline: free memory in bytes when that boot began.
        files: names of the plan files that it changed.

    Attributes:
        budget_moved: whether the same engine has booted with another utilization since.
    """

    __slots__ = ("baseline", "budget_moved", "files", "value")

    def __init__(self, value: int, baseline: int, files: frozenset[str]) -> None:
        """Nothing has happened since."""
        self.value = value
        self.baseline = baseline
        self.files = files
        self.budget_moved = False


@final
class Event:
    """One boot as the judges see it: before it has become the past.

    Args:
        result: what came of it.
        key: its inputs.
        engine: what booted.
        interrupted: whether a kill waited for its save.

    Attributes:
        alone: whether the rank shares its profiling with no other, so that no vote is needed.
        enabled: whether the feature was on.
        saved: what the last boot with equal inputs saved for certain, or None.
        others: what the same engine saved at other utilizations, by utilization.
        touched: names of plan files that the boot changed, made or removed.
        litter: other names that it left in the plan folder.
    """

    __slots__ = (
        "alone", "enabled", "interrupted", "key", "litter", "others", "result", "saved", "touched",
    )  # fmt: skip

    def __init__(self, result: BootResult, key: Key, engine: Engine, *, interrupted: bool) -> None:
        """Take what the boot itself tells."""
        self.result = result
        self.key = key
        parallel = engine.config.parallel_config
        self.alone = parallel.world_size == 1 and parallel.data_parallel_size == 1
        self.enabled = bool(engine.enabled)
        self.interrupted = interrupted
        self.saved: Saved | None = None
        self.others: dict[float, Saved] = {}
        self.touched: frozenset[str] = frozenset()
        self.litter: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """The boot as a person would tell it."""
        result = self.result
        name = "" if result.engine == "engine" else f" of {result.engine}"
        head = f"boot{name} at {result.utilization:g}"
        if result.refused:
            return f"{head} was turned away, only {short(result.free)} were free"
        if result.raised is not None:
            error = f"{type(result.raised).__name__}: {result.raised}"
            return f"{head} raised {error} ({result.where})"
        if result.applied is not None:
            return f"{head} applied {short(result.applied)}, budget {short(result.budget)}"
        if result.explicit is not None:
            return f"{head} was given {short(result.explicit)}"
        if result.suggestion is None:
            return f"{head} had no room for a KV cache"
        if self.interrupted:
            return f"{head} was killed while it saved {short(result.suggestion)}"
        return f"{head} {'saved' if self.touched else 'measured'} {short(result.suggestion)}"


@final
class History:
    """All boots so far, as far as they matter to later ones.

    Attributes:
        saved: inputs of a boot -> what the last one of that kind saved for certain.
        story: what has happened, one clause each.
    """

    def __init__(self) -> None:
        """Nothing has happened."""
        self.saved: dict[Key, Saved] = {}
        self.story: list[str] = []
        self._files: dict[str, tuple[int, int]] = {}
        self._toucher: dict[str, Key | None] = {}

    @property
    def plans(self) -> list[str]:
        """Names of the plan files that are there, sorted."""
        return sorted(filter(is_plan, self._files))

    def touchers(self, saved: Saved) -> set[Key | None]:
        """Whose boots changed the files of a plan last; None stands for anything but a boot."""
        return {self._toucher[name] for name in saved.files}

    def observe(self, event: Event, folder: str) -> None:
        """Complete `event` with what was known before it and what it did to the plan folder."""
        base, utilization = event.key
        event.saved = self.saved.get(event.key)
        event.others = {u: s for (b, u), s in self.saved.items() if b == base and u != utilization}
        before = self._files
        changed = self._look(folder)
        event.touched = frozenset(filter(is_plan, changed))
        event.litter = frozenset(self._files.keys() - before.keys() - event.touched)

    def settle(self, event: Event) -> None:
        """Let a boot that has been judged be the past."""
        result = event.result
        for name in event.touched:
            self._toucher[name] = event.key
        if result.suggestion is not None and event.enabled:
            self.saved.pop(event.key, None)
            storable = 0 < result.suggestion <= min(result.free, result.budget)
            if storable and not event.interrupted and result.raised is None:
                self.saved[event.key] = Saved(result.suggestion, result.free, event.touched)
        if not result.refused:
            for other in event.others.values():
                other.budget_moved = True

    def meddled(self, folder: str) -> None:
        """Something other than a boot was done to the plan folder."""
        for name in self._look(folder):
            self._toucher[name] = None

    def relocated(self) -> None:
        """All files lie in another place now; whether they still count is LOAD-08's question."""
        for name in self._files:
            self._toucher[name] = None

    def _look(self, folder: str) -> set[str]:
        """Names of what has changed in `folder` since the last look."""
        found: dict[str, tuple[int, int]] = {}
        changed = set()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    found[entry.name] = (status.st_ino, status.st_size)
                    is_file = is_plan(entry.name) and stat.S_ISREG(status.st_mode)
                    if is_file and status.st_mtime != _LONG_AGO:
                        changed.add(entry.name)
                        os.utime(entry.path, (_LONG_AGO, _LONG_AGO))
        except (FileNotFoundError, NotADirectoryError):
            pass
        before, self._files = self._files, found
        names = before.keys() | found.keys()
        return changed | {name for name in names if before.get(name) != found.get(name)}


def short(number: Any) -> str:
    """`number` bytes for a story, in GiB."""
    return f"{number / GIB:.2f} GiB" if type(number) is int else repr(number)
