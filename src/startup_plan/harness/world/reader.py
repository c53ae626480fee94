# SPDX-License-Identifier: Apache-2.0
"""Look-ups of one plan, over and over, while what lies at its path changes.

A boot does much besides reading its plan. Tens of thousands of damaged files can be tried only if
the rest is done once: a `Reader` prepares a worker and then repeats the subject's look-up alone,
each time with the subject's modules and the worker as a new process would have them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, final

from startup_plan.harness.contract.violation import NeverReachedError
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.process_groups import sit
from startup_plan.harness.stubs.units import gib
from startup_plan.support.isolated import run_isolated
from startup_plan.support.plan_files import key_of

from .calls import call
from .engine import Engine
from .subject import MissingFunctionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.support.isolated import Outcome

    from .world import World

OPTIONAL: Final = tuple(
    setting.path
    for setting in stub_configs.SETTINGS
    if setting.default == {} and None in setting.alternates
)
"""Parts of a configuration that are None unless somebody asks for them."""


def stripped(engine: Engine) -> Engine:
    """`engine` without the optional parts of a configuration, as most are."""
    for path in OPTIONAL:
        if path.rpartition(".")[0] not in OPTIONAL:
            engine.set(path, None)
    return engine


def plain_engine(name: str = "engine") -> Engine:
    """An engine without the optional parts of a configuration, as most are.

    Its key is quick to compute and its plan is short, which is what makes every bit of it worth
    trying. Its config hash is fixed: no test of reading depends on how that comes about.
    """
    engine = stripped(Engine(name))
    engine.hash_override = "5ca1ab1e00"
    return engine


class Saved(NamedTuple):
    """A plan that a boot has left.

    Attributes:
        path: where it lies.
        data: its bytes.
        kv_bytes: the KV-cache size in bytes that was handed over.
        baseline: free memory in bytes when it was measured.
    """

    path: str
    data: bytes
    kv_bytes: int
    baseline: int

    @property
    def key(self) -> str:
        """The key, as the name of the file gives it (KEY-15)."""
        return key_of(self.path)

    def __str__(self) -> str:
        """How stories call it."""
        return f"a plan of {gib(self.kv_bytes)} at {gib(self.baseline)} free was saved"


class Reading(NamedTuple):
    """What one look-up came to.

    Attributes:
        applied: what the subject put into the configuration, or None.
        raised: what it raised, or None.
    """

    applied: Any
    raised: Exception | None

    @property
    def missed(self) -> bool:
        """Whether it was a miss: nothing raised, nothing applied."""
        return self.applied is None and self.raised is None

    def __str__(self) -> str:
        """The end of a story."""
        if self.raised is not None:
            return f"the look-up raised {type(self.raised).__name__}: {str(self.raised)[:120]}"
        if self.applied is None:
            return "nothing was applied"
        return f"the look-up applied {shown(self.applied)}"


def shown(applied: object) -> str:
    """A value that was applied, exact, and as short as a story needs it."""
    if type(applied) is int and abs(applied) < 2**64:
        return f"{applied} bytes"
    return f"{type(applied).__name__} {str(applied)[:40] if type(applied) is not int else 'huge'}"


def save_plan(world: World, engine: Engine, suggestion: int | None = None) -> Saved:
    """Boot `engine` until it has saved a plan, and give that plan.

    Args:
        world: where it boots.
        engine: what boots.
        suggestion: KV-cache size in bytes to hand over instead of what the boot measured.

    Raises:
        NeverReachedError: the boot raised, or left nothing to be read.
    """
    before = {path: _read(path) for path in world.plans()}
    result = world.boot(engine, suggestion=suggestion)
    if result.raised is not None:
        raise NeverReachedError(f"a plan that can be read: the {result}")
    handed = result.suggestion if suggestion is None else suggestion
    changed = [path for path in world.plans() if before.get(path) != _read(path)]
    if len(changed) != 1 or handed is None:
        raise NeverReachedError(f"a plan that can be read; none was saved: {result}")
    return Saved(changed[0], _read(changed[0]), handed, result.free)


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


@final
class Reader:
    """One rank that looks up its plan again and again. To be entered.

    Args:
        world: an entered world.
        engine: what boots.
        rank: which rank.
        free: free memory in bytes that the rank finds, less than the device really has if need be;
            as the device has it if left out.
        returned: whether what was missing then is free again when the rank looks its plan up.
    """

    def __init__(
        self,
        world: World,
        engine: Engine,
        rank: int = 0,
        *,
        free: int | None = None,
        returned: bool = False,
    ) -> None:
        """Prepare a worker that has loaded its weights."""
        self._world = world
        self._engine = engine
        self._rank = rank
        self._device = world.device_of(engine, rank)
        self._tenants_before = self._device.tenants
        self._tenants = dict(self._tenants_before)
        if free is not None:
            # A tenant, and not another figure in the snapshot: a subject may ask the device itself.
            self._tenants["reader"] = self._device.free - free
        self._device.tenants = self._tenants
        footprint = world.footprint(engine, rank)
        self._worker = world.worker(engine, rank, footprint=footprint)
        self._held = footprint.weights + footprint.persistent
        self._device.tenants = self._tenants_before
        if returned:
            self._tenants = dict(self._tenants_before)
        self._config = self._worker.vllm_config
        self._pristine = [(thing, dict(vars(thing))) for thing in (self._worker, self._config)]
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Set the environment and the devices as this rank finds them."""
        self._exit.enter_context(self._world.process_of(self._engine))
        return self

    def __exit__(self, *_raised: object) -> None:
        """Put the environment and the devices back."""
        self._device.tenants = self._tenants_before
        sit(None)
        self._exit.close()

    def look(self, during: contextlib.AbstractContextManager[Any] | None = None) -> Reading:
        """Let a new process look up its plan as it lies there.

        Args:
            during: entered around the look-up and the import of the subject, for faults.
        """
        world = self._world
        for thing, state in self._pristine:
            vars(thing).clear()
            vars(thing).update(state)
        self._config.cache_config.kv_cache_memory_bytes = None
        world.take_seat(self._engine, self._rank)
        world.simulation.held = self._held
        world.take_groups(self._engine, self._rank)
        world.simulation.log, world.simulation.queries = [], []
        self._device.tenants = self._tenants
        # Names that the subject has bound at import must be those of the faulty system.
        apart = contextlib.nullcontext() if during is None else world.subject.apart()
        try:
            with apart, during or contextlib.nullcontext():
                call(world.subject.fresh().maybe_apply_startup_plan, self._worker)
        except MissingFunctionError:
            raise
        except Exception as error:
            return Reading(None, error)
        return Reading(self._worker.cache_config.kv_cache_memory_bytes, None)

    def look_apart(
        self,
        *,
        seconds: float,
        extra_bytes: int,
        prepare: Callable[[], object] | None = None,
        trace: bool = False,
    ) -> tuple[str, Outcome]:
        """Look up in a process of its own; see `run_isolated` for its limits.

        Returns:
            What came of it instead of a miss, "" if it was one; and the outcome of the process.
        """

        def look() -> tuple[bool, str]:
            reading = self.look()
            return reading.missed, str(reading)

        outcome = run_isolated(
            look, seconds=seconds, extra_bytes=extra_bytes, prepare=prepare, trace=trace
        )
        missed, what = outcome.value or (False, f"the look-up {outcome}")
        return "" if missed else what, outcome

    @property
    def queries(self) -> list[tuple[str, int]]:
        """The device queries of the last look-up, as (name, device index)."""
        return self._world.simulation.queries

    @property
    def log(self) -> list[tuple[str, str]]:
        """The lines that the last look-up logged, as (level, message)."""
        return self._world.simulation.log
