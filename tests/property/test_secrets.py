# SPDX-License-Identifier: Apache-2.0
"""SAVE-14: nothing that is written or logged holds a secret of the engine."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.histories.scenes import spoil, tale
from startup_plan.harness.histories.secret_forms import Secret, plant, standing_in
from startup_plan.harness.operations.faults import fail_at, recording
from startup_plan.harness.operations.interposer import patched
from startup_plan.harness.operations.operation import WRITES
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from startup_plan.harness.operations.faults import Trace
    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

_SEEDS: Final = (1, 2)
"""Two sets of secrets: the beginning of a digest may stand there by chance, but not of two."""


class _Handle:
    """An object without a lasting spelling, whose text has a secret in it."""

    def __init__(self, secret: str) -> None:
        """Keep it where only the text shows it."""
        self._text = f"<Handle password={secret} at 0x7f0000000000>"

    __slots__ = ("_text",)

    def __repr__(self) -> str:
        return self._text


def _engine(seed: int) -> tuple[Engine, list[Secret]]:
    engine = Engine()
    engine.set(UTILIZATION, 0.6)
    engine.hash_override = keys.SAME_HASH
    return engine, plant(engine, seed)


def _saved(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    return [world.boot(engine)]


def _applied(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    return [world.boot(engine), world.boot(engine)]


def _refused(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    first = world.boot(engine)
    spoil(world, engine, "a co-tenant takes 2 GiB")
    return [first, world.boot(engine)]


def _beside(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    first = world.boot(engine)
    world.tell("the utilization and a password are changed")
    engine.set(UTILIZATION, 0.5)
    engine.setenv("REDIS_PASSWORD", "0000")
    return [first, world.boot(engine)]


def _unreadable(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    first = world.boot(engine)
    spoil(world, engine, "the plan is overwritten with garbage")
    return [first, world.boot(engine)]


def _unstorable(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    world.tell("every file operation of the save fails")
    fault = fail_at(world.cache_root, 1, errno.ENOSPC, persistent=True)
    return [world.boot(engine, during_save=fault)]


def _unknown(world: World, engine: Engine, _: list[Secret]) -> list[BootResult]:
    world.tell("the config hash cannot be computed")
    engine.hash_override = None
    with keys.failing_config_hash():
        return [world.boot(engine)]


def _unspelled(world: World, engine: Engine, planted: list[Secret]) -> list[BootResult]:
    world.tell("a setting holds an object that no key can be made of")
    engine.config.additional_config = {"handle": _Handle(planted[0].text)}
    return [world.boot(engine)]


SITUATIONS: Final[dict[str, Callable[[World, Engine, list[Secret]], list[BootResult]]]] = {
    "saved": _saved,
    "applied": _applied,
    "refused": _refused,
    "a miss beside another plan": _beside,
    "unreadable": _unreadable,
    "not saved": _unstorable,
    "no identity": _unknown,
    "an object in a setting": _unspelled,
}
"""What becomes of a plan -> how it comes about."""


@contextlib.contextmanager
def _followed(world: World) -> Iterator[Trace]:
    """See everything that is written below the cache root, temporary files included."""
    trace = recording(world.cache_root)
    trace.strict = False  # what it cannot follow is read from the files at the end
    with patched(world.cache_root, world.subject), trace:
        yield trace


def _outlets(
    world: World, trace: Trace, capture: pytest.CaptureFixture[str]
) -> Iterator[tuple[str, str]]:
    """Everything that came out: where, and the text of it."""
    for operation in trace.operations:
        if operation.name in WRITES:
            yield os.path.basename(operation.path), _shown(operation.data)
    for folder, _, files in os.walk(world.cache_root):
        for name in files:
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as stream:
                yield name, _shown(stream.read())
    out, err = capture.readouterr()
    yield "what it printed", out + err


def _shown(data: Any) -> str:
    """Bytes as text, every encoding that keeps ASCII in its order one below the other."""
    raw = bytes(data)
    return "\n".join((raw.decode("utf-8", "replace"), raw.replace(b"\0", b"").decode("latin-1")))


def _leaks(
    world: World, situation: str, seed: int, capture: pytest.CaptureFixture[str]
) -> dict[tuple[str, str], str]:
    """Which secrets come out in which form, and where."""
    engine, planted = _engine(seed)
    capture.readouterr()
    with _followed(world) as trace:
        results = SITUATIONS[situation](world, engine, planted)
    said = "\n".join(line for result in results for line in result.lines)
    outlets = {text: where for where, text in _outlets(world, trace, capture)}
    found = {}
    for text, where in {**outlets, said: "its log"}.items():
        for secret, form in standing_in(text, planted):
            found[secret.name, form] = where
    return found


@pytest.mark.requirement("SAVE-14")
@pytest.mark.parametrize("situation", SITUATIONS)
def test_no_secret_is_written_or_logged(
    world: World,
    fresh_folder: Callable[[], Any],
    tally: Tally,
    capfd: pytest.CaptureFixture[str],
    situation: str,
) -> None:
    """Whatever becomes of a plan, no byte of a file and no line of a log gives a secret away.

    A digest of one secret, alone or beside its name, gives it away as well where it can be guessed.
    The key does not count: whoever would check a guess by it must know all other factors.
    """
    found = []
    for seed in _SEEDS:
        world.again(fresh_folder())
        found.append(_leaks(world, situation, seed, capfd))
    tally(boots=2 * len(_SEEDS), examples=len(_SEEDS))
    both = [key for key in found[0] if key in found[1]]
    if not both:
        return
    told = [f"{name} {form} in {found[1][name, form]}" for name, form in both]

    raise Violation("SAVE-14", tale(world, keys.listed(told, 4)))
