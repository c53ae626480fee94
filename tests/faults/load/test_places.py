# SPDX-License-Identifier: Apache-2.0
"""A plan works from wherever its cache root lies now, also where nothing can be written."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world.fake_disk import SOMEBODY, become, fake_world
from startup_plan.harness.world.reader import Reader, plain_engine, save_plan
from startup_plan.support.isolated import drop_override, run_isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.reader import Reading, Saved
    from startup_plan.harness.world.subject import Subject
    from startup_plan.harness.world.world import World


def _plan_that_works(world: World, engine: Engine) -> Saved:
    """A plan that is applied where it was saved; without one there is nothing to keep working."""
    saved = save_plan(world, engine)
    with Reader(world, engine) as reader:
        reading = reader.look()
    if reading.applied != saved.kv_bytes:
        pytest.skip(f"the plan is not applied where it was saved either: {reading} (BOOT-01)")
    return saved


def _forbid_writing(root: str) -> None:
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
        os.chmod(folder, 0o555)  # noqa: S103  # reading by others is the point


def _boot_read_only(world: World, engine: Engine) -> tuple[object, str]:
    result: BootResult = world.boot(engine)
    return result.applied, str(result)


@pytest.mark.requirement("LOAD-07")
def test_a_read_only_cache_root_still_gives_its_plan(world: World) -> None:
    """Where the kernel forbids every write below the cache root, the plan there is applied."""
    engine = plain_engine()
    saved = _plan_that_works(world, engine)
    _forbid_writing(world.cache_root)
    outcome = run_isolated(
        lambda: _boot_read_only(world, engine),
        seconds=20.0,
        extra_bytes=256 * MIB,
        prepare=drop_override,
    )
    applied, what = outcome.value if outcome.kind == "returned" else (None, f"the boot {outcome}")

    if applied != saved.kv_bytes:
        raise Violation("LOAD-07", f"{saved}; the cache root was made read-only; {what}")


@pytest.mark.requirement("LOAD-07")
@pytest.mark.parametrize("shared", [False, True], ids=["its own", "of another user"])
def test_a_plan_that_one_may_only_read_is_applied(subject: Subject, shared: bool) -> None:
    """A user who may read a plan, his own or another's, and write nothing, gets its value."""
    with fake_world(subject) as world:
        engine = plain_engine()
        saved = _plan_that_works(world, engine)
        _forbid_writing(world.cache_root)
        if shared:
            become(SOMEBODY + 1)
        result = world.boot(engine)

    if result.applied != saved.kv_bytes:
        owner = "another user's" if shared else "his own"
        raise Violation("LOAD-07", f"{saved}; a user who may only read {owner} booted; {result}")


def _copy(old: str, new: str) -> None:
    shutil.copytree(old, new)
    shutil.rmtree(old)


def _copy_bytes(old: str, new: str) -> None:
    """Names and bytes alone, as an object store keeps them; every file is from 1970."""
    shutil.copytree(old, new, copy_function=shutil.copyfile)
    shutil.rmtree(old)
    for folder, _, files in os.walk(new):
        for name in (*files, "."):
            os.utime(os.path.join(folder, name), (0, 0))


def _move_and_link(old: str, new: str) -> None:
    """The folder of plans on another disk, with a link where it is looked for."""
    os.rename(old, f"{new}.far")
    os.symlink(f"{new}.far", new)


WAYS: Final[dict[str, Callable[[str, str], object]]] = {
    "moved": os.rename,
    "copied, and the old one removed": _copy,
    "copied without times and modes, and the old one removed": _copy_bytes,
    "copied": shutil.copytree,
    "linked": os.symlink,
    "moved behind a link": _move_and_link,
}

NAMES: Final = ("elsewhere", "far/er/away/than/it/was/before", "with spaces, ünïcode and %s {0}")


@pytest.mark.requirement("LOAD-08")
@pytest.mark.parametrize("way", WAYS)
def test_a_cache_root_elsewhere_keeps_working(world: World, tally: Tally, way: str) -> None:
    """A cache root that was copied or moved gives the plans that were saved in the old one."""
    engine = plain_engine()
    saved = _plan_that_works(world, engine)
    home = os.path.dirname(world.cache_root)
    old = world.cache_root
    kept = f"{old}.kept"
    shutil.copytree(old, kept)
    for name in NAMES:
        new = os.path.join(home, name)
        os.makedirs(os.path.dirname(new), exist_ok=True)
        WAYS[way](old, new)
        world.cache_root = new
        result = world.boot(engine)
        tally(boots=1)

        if result.applied != saved.kv_bytes:
            raise Violation("LOAD-08", f"{saved}; the cache root was {way} to {name!r}; {result}")

        if not os.path.lexists(old):
            shutil.copytree(kept, old)


@pytest.mark.requirement("LOAD-08")
def test_a_single_plan_moves_to_another_cache_root(world: World, tally: Tally) -> None:
    """A plan file put into a cache root that never held one is applied there."""
    engine = plain_engine()
    saved = _plan_that_works(world, engine)
    world.cache_root = os.path.join(os.path.dirname(world.cache_root), "new")
    os.makedirs(world.plan_folder)
    with open(os.path.join(world.plan_folder, os.path.basename(saved.path)), "wb") as stream:
        stream.write(saved.data)
    os.unlink(saved.path)
    reading: Reading
    with Reader(world, engine) as reader:
        reading = reader.look()
    tally(boots=1)

    if reading.applied != saved.kv_bytes:
        raise Violation("LOAD-08", f"{saved}; its file was put into another cache root; {reading}")
