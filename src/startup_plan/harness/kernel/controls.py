# SPDX-License-Identifier: Apache-2.0
"""What strace and mounts have to do with the reference before they may judge anybody."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.control import REFERENCE, Control
from startup_plan.harness.operations.save_trial import NEW, SaveTrial
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.reader import plain_engine
from startup_plan.harness.world.world import World

from .disks import PAGE, bind, fill_with_bytes, make_read_only, mount_memory, with_own_mounts
from .trial import KernelLoad, KernelSave, damage_of, raised_by

if TYPE_CHECKING:
    from pathlib import Path

_ERROR: Final = "EIO"
_PAGES: Final = 16


def _traced(folder: Path) -> str:
    """A save and a look-up under strace, without a fault and with one."""
    for name in ("off", "save", "load"):
        (folder / name).mkdir()
    with World(load_subject(REFERENCE), folder / "off") as world:
        engine = plain_engine()
        engine.enabled = False
        if (plain := world.boot(engine)).raised:
            return f"with the feature off, a {plain}"
    with World(load_subject(REFERENCE), folder / "save") as world:
        kernel = KernelSave(SaveTrial(world, over_old=True))
        for blow in kernel.failed(_ERROR, slice(0, 1)):
            if blow.raised or (damage := damage_of(kernel.trial)):
                return f"{blow.label}: the save of the reference {blow.raised or damage}"
    with World(load_subject(REFERENCE), folder / "load") as world:
        for blow in list(KernelLoad(world).failed(_ERROR))[:1]:
            if blow.raised:
                return f"{blow.label}: the look-up of the reference {blow.raised}"
    return ""


def _mounted(folder: Path) -> str:
    """Saves on a disk that has room, has none, and is read-only."""

    def live() -> str:
        with World(load_subject(REFERENCE), folder) as world:
            root = os.path.dirname(world.cache_root)
            mount_memory(root, size=_PAGES * PAGE, inodes=_PAGES)
            trial = SaveTrial(world, over_old=True)
            trial.put_back()
            if raised := raised_by(trial.save_unseen()):
                return f"on a disk of its own, the save of the reference raised {raised}"
            if (booted := trial.next_boot()).applied != NEW:
                return f"on a disk of its own, after a save of the reference the next {booted}"
            trial.put_back()
            for filler in fill_with_bytes(root, spare=0):
                raised = raised_by(trial.save_unseen())
                os.unlink(filler)
            bind(trial.root, trial.root)
            make_read_only(trial.root)
            raised = raised or raised_by(trial.save_unseen())
            return f"on a full or read-only disk, the reference raised {raised}" if raised else ""

    found: str = with_own_mounts(live)
    return found


TRACED: Final = Control("ptrace", "traced", _traced)
"""Saves and look-ups under strace."""

MOUNTED: Final = Control("mount", "disks", _mounted)
"""Saves on disks of their own."""
