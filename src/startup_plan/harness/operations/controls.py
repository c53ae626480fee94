# SPDX-License-Identifier: Apache-2.0
"""What another user has to be able to do with the reference before one may judge anybody."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.control import REFERENCE, Control
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan
from startup_plan.harness.world.world import World
from startup_plan.support.isolated import run_isolated

if TYPE_CHECKING:
    from pathlib import Path

NOBODY: Final = 65534
_SECONDS: Final = 30.0
_EXTRA_BYTES: Final = 2**30


def become_nobody() -> None:
    """Be user nobody, for good."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _users(folder: Path) -> str:
    """What root has saved under umask 022, nobody applies."""
    before = os.umask(0o022)
    try:
        folder.chmod(0o755)
        with World(load_subject(REFERENCE), folder) as world:
            engine = plain_engine()
            saved = save_plan(world, engine)
            with Reader(world, engine) as reader:
                looked = run_isolated(
                    lambda: reader.look().applied,
                    seconds=_SECONDS,
                    extra_bytes=_EXTRA_BYTES,
                    prepare=become_nobody,
                )
    finally:
        os.umask(before)
    if looked.kind == "returned" and looked.value == saved.kv_bytes:
        return ""
    return f"{saved}; a look-up of the reference as user nobody {looked}"


USERS: Final = Control("root", "users", _users)
"""Processes of another user than the one who saves."""
