# SPDX-License-Identifier: Apache-2.0
"""Small scenes that several tests share: an engine that must boot, a plan that must not be used."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.operations.faults import recording
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

_KV: Final = "cache_config.kv_cache_memory_bytes"


def tale(world: World, verdict: str) -> str:
    """What has happened in `world`, and what is wrong with it."""
    return "; ".join([*world.story, verdict])


def must_boot(world: World, engine: Engine, requirement: str, **options: Any) -> BootResult:
    """Boot rank 0, where nothing can be judged unless that works.

    Args:
        world: the world.
        engine: what boots.
        requirement: what is judged.
        options: passed on to `World.boot`.

    Raises:
        Violation: the subject raised, so that the requirement cannot be seen to hold.
    """
    result = world.boot(engine, **options)
    if result.raised is not None:
        raise Violation(requirement, tale(world, "the boot did not get so far"))
    return result


@contextlib.contextmanager
def watching(world: World, folder: str) -> Iterator[list[str]]:
    """A tripwire: note every operation on `folder` and below, looks included.

    Yields:
        What was noted, as "call path" with the path relative to `folder`; complete at the end.
    """
    noted: list[str] = []
    with patched(folder, world.subject), recording(folder) as trace:
        yield noted
    noted += [f"{done.name} {os.path.relpath(done.path, folder)}" for done in trace.operations]


def changed_settings(engine: Engine, result: BootResult) -> list[str]:
    """Paths of the settings that a boot left different from what the operator had set.

    `kv_cache_memory_bytes` is not among them: a boot may set that one (`BootResult.applied`).
    """
    if result.worker is None:
        return []
    asked, left = engine.new_config(), result.worker.vllm_config
    get = stub_configs.get_setting
    return [
        setting.path
        for setting in stub_configs.SETTINGS
        if setting.path != _KV and get(asked, setting.path) != get(left, setting.path)
    ]


def _no_plan(world: World, _: Engine) -> None:
    for path in world.plans():
        os.unlink(path)


def _garbage(world: World, _: Engine) -> None:
    for path in world.plans():
        with open(path, "wb") as stream:
            stream.write(b"this is no plan")


def _less_free(world: World, engine: Engine) -> None:
    device = world.device_of(engine)
    device.tenants["other"] = device.tenants.get("other", 0) + 2 * GIB


def _upgrade(world: World, _: Engine) -> None:
    world.runtime.vllm = "0.34.0"


def _heavier(_: World, engine: Engine) -> None:
    engine.heavier_weights = GIB


SPOILERS: Final[Mapping[str, Callable[[World, Engine], None]]] = {
    "the plan is removed": _no_plan,
    "the plan is overwritten with garbage": _garbage,
    "a co-tenant takes 2 GiB": _less_free,
    "vLLM is upgraded": _upgrade,
    "the weights grow by 1 GiB": _heavier,
}
"""What happened -> how; after each, a plan that was saved before must not be applied."""


def spoil(world: World, engine: Engine, what: str) -> None:
    """Let one of `SPOILERS` happen, and tell of it."""
    SPOILERS[what](world, engine)
    world.tell(what)
