# SPDX-License-Identifier: Apache-2.0
"""Boots that end before they are ready, each in a process of its own, with all that an end runs.

A process that runs out of memory raises, and ends as Python ends: its threads are waited for, its
objects are let go, and what was registered for the exit runs. A process that is killed ends there.
"""

from __future__ import annotations

import atexit
import gc
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from startup_plan.harness.stubs.units import MIB
from startup_plan.support.isolated import run_isolated

if TYPE_CHECKING:
    from .engine import Engine
    from .outcome import BootResult
    from .world import World

_SECONDS: Final = 20.0
_EXTRA_BYTES: Final = 512 * MIB


class Death(NamedTuple):
    """How a boot ends before it is ready.

    Attributes:
        runs_out: what there is no memory for, as `World.boot` names it; "" if it is killed.
        until: the stage at which it is killed.
        measures: whether only a boot that measures comes so far.
    """

    runs_out: str = ""
    until: str = "saved"
    measures: bool = False


DEATHS: Final[dict[str, Death]] = {
    "ran out of memory while it loaded": Death("weights"),
    "ran out of memory while it profiled": Death("activations"),
    "ran out of memory while it estimated its graphs": Death("estimate", measures=True),
    "ran out of memory when it allocated its KV cache": Death("kv"),
    "ran out of memory while it captured its graphs": Death("graphs"),
    "was killed once it had loaded": Death(until="loaded"),
    "was killed once it had looked its plan up": Death(until="looked-up"),
    "was killed once it had profiled": Death(until="profiled"),
    "was killed once it had allocated": Death(until="allocated"),
    "was killed once it had captured": Death(until="captured"),
}
"""What a story says of it -> the death."""

APPLIED: Final = "a boot that applies a plan does not measure, and cannot die of it"
"""Why a boot did not die, where this death is no hazard to it."""


def die(world: World, engine: Engine, death: Death) -> str:
    """Let a boot of `engine` die in a process of its own.

    Args:
        world: where; it knows nothing of that boot afterwards but what lies on its disk.
        engine: what boots.
        death: how it ends.

    Returns:
        Why the boot did not die this death, "" if it did.
    """
    outcome = run_isolated(
        lambda: _lead(world, engine, death), seconds=_SECONDS, extra_bytes=_EXTRA_BYTES
    )
    return str(outcome.value) if outcome.kind == "returned" else f"the boot {outcome}"


def _lead(world: World, engine: Engine, death: Death) -> str:
    atexit._clear()  # of the process that judges, which this is a copy of
    # What runs at the end finds the environment that its process had.
    with world.process_of(engine):
        result = world.boot(engine, runs_out=death.runs_out, until=death.until)
        came = _missed(result, death)
        if death.runs_out and not came:
            _end(world, result)
    return came


def _missed(result: BootResult, death: Death) -> str:
    """Why this is not the death that was meant, "" if it is."""
    if bool(result.shortage) if death.runs_out else result.stage == death.until:
        return ""
    if death.measures and result.applied is not None:
        return APPLIED
    return f"the boot did not get so far: {result}"


def _end(world: World, result: BootResult) -> None:
    """What the interpreter does when its main thread has come to its end."""
    result.worker = None
    threading._shutdown()  # type: ignore[attr-defined]  # waits for every thread that is no daemon
    world.subject.forget()
    gc.collect()
    atexit._run_exitfuncs()
