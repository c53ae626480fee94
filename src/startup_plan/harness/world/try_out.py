# SPDX-License-Identifier: Apache-2.0
"""Whether a subject can be judged at all, found out in a process that it may harm as it likes.

A subject is somebody's file. Whoever judges never imports it before it has been imported, has
looked a plan up and has saved one in a process apart, within a time, and has left that process as
it was. What cannot be called as vLLM's worker calls it, or asks for what is not simulated, is no
subject: nothing that it does could be held against it.
"""

from __future__ import annotations

import contextlib
import inspect
import mmap
import tempfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from startup_plan.harness.stubs.backends import chosen
from startup_plan.harness.stubs.unknown import NO_ALARM, unknown_names
from startup_plan.support.apart import AnsweredError, ApartError, run_apart
from startup_plan.support.scratch import fastest_folder
from startup_plan.support.seal import Seal, described, settings_kept

from .engine import Engine
from .loading import SubjectError, load_subject
from .subject import FUNCTIONS, stubs_ready
from .together import Rank, boot_ranks
from .world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from .outcome import BootResult
    from .subject import Subject

SECONDS: Final = 20.0
"""How long a subject may take to be imported and to boot twice."""


def _pair(world: World) -> list[BootResult]:
    """Boot two ranks that meet; one that waits for ever is for GROUP-01 to judge."""
    engine = Engine(world_size=2)
    return boot_ranks(world, [Rank(engine, rank, rank) for rank in range(2)])


def _off(world: World) -> list[BootResult]:
    engine = Engine()
    engine.enabled = False
    return [world.boot(engine)]


_FURTHER: Final[tuple[Callable[[World], list[BootResult]], ...]] = (
    _pair,
    lambda world: [world.boot(Engine(placement=(1,)))],
    _off,
)
"""Boots a pair, on another device, and with the feature off."""

_STEPS: Final = ("imported it", "let it look a plan up and save one", "let it look its plan up")


class Tried(NamedTuple):
    """A subject that can be judged.

    Attributes:
        name: what was asked for.
        file: where it lies.
        sha256: what its bytes are.
        version: of the distribution it belongs to, "" where that is unknown.
        does_without: names of vLLM or torch, as sentences, that it asked for in vain and could do
            without.
        applies: whether it applies a plan where nothing has changed since it was saved.
    """

    name: str
    file: str
    sha256: str
    version: str
    does_without: list[str]
    applies: bool


def try_out(name: str, *, seconds: float = SECONDS) -> Tried:
    """Load the subject that `name` means and let it boot, in a process of its own.

    Args:
        name: as `load_subject` takes it.
        seconds: how long all of that may take.

    Raises:
        SubjectError: it cannot be loaded, or does not leave a process alone in which it is judged;
            one sentence says what it did.
    """
    with mmap.mmap(-1, 1) as step:
        try:
            return Tried(*run_apart(lambda: _try(name, step), seconds=seconds, tells=SubjectError))
        except AnsweredError as error:
            raise SubjectError(str(error)) from None
        except ApartError as error:
            where = _STEPS[min(step[0], len(_STEPS) - 1)]
            raise SubjectError(
                f"{name} cannot be judged: the process that {where} {error}; a startup plan must "
                "come back to its caller, and leave the caller's process as it was"
            ) from None


def _try(name: str, step: Any) -> Tried:
    seal = Seal()
    with settings_kept():
        subject = load_subject(name)
        _check_calls(subject)
    unknown_names.clear()
    booted: list[BootResult] = []
    ended = False
    with (
        tempfile.TemporaryDirectory(dir=fastest_folder()) as folder,
        # Whatever it raises is for the tests to judge.
        contextlib.suppress(Exception),
        World(subject, folder) as world,
    ):
        for number in (1, 2):
            step[0] = number
            with settings_kept():
                booted.append(world.boot(Engine()))
        for further in _FURTHER:
            with settings_kept():
                booted += further(world)
        ended = True
    if replaced := seal.broken():
        raise SubjectError(
            f"{name} cannot be judged: it {described(replaced)}, so that nothing it says can be "
            "trusted; let it keep to its own module"
        )
    _check_answers(name, booted)
    asked = [said for said in dict.fromkeys(unknown_names) if said != NO_ALARM]
    if asked and not (ended and _did_without(booted)):
        raise SubjectError(f"{name} cannot be judged: {asked[0]}")
    applies = len(booted) < 2 or booted[1].applied is not None
    return Tried(subject.name, subject.file, subject.sha256, subject.version, asked, applies)


def _check_answers(name: str, booted: list[BootResult]) -> None:
    """See that the subject is made for this backend.

    Raises:
        SubjectError: it has no plan, and asked what the backend's platform does not answer.
    """
    backend = chosen()
    refused = [query for result in booted for query, _ in result.queries if backend.refuses(query)]
    if refused and all(result.applied is None for result in booted):
        raised = next((type(r.raised).__name__ for r in booted if r.raised is not None), "")
        raise SubjectError(
            f"{name} cannot be judged on the backend {backend.name}: it asks vLLM's platform for "
            f"the {refused[0]}, which that of {backend.name} does not answer, and "
            f"{f'raises {raised}' if raised else 'has no plan there'}; choose another --backend"
        )


def _check_calls(subject: Subject) -> None:
    """See that vLLM's worker could call every function.

    Raises:
        SubjectError: one is missing, or takes something else.
    """
    if subject.missing:
        raise SubjectError(
            f"{subject.name} cannot be judged: it has no function "
            f"{' and no '.join(subject.missing)}; name a module that has all three"
        )
    with subject.out_of_the_way(), stubs_ready():
        module = subject.fresh()
        for function, given in FUNCTIONS.items():
            try:
                signature = inspect.signature(getattr(module, function))
                signature.bind(*given)
            except TypeError:
                raise SubjectError(
                    f"{subject.name} cannot be judged: its {function}{signature} cannot be called "
                    f"with ({', '.join(given)}), as vLLM's worker calls it"
                ) from None
            except ValueError:
                continue  # nobody can say what it takes


def _did_without(booted: list[BootResult]) -> bool:
    """Whether plans were saved and applied although something that was asked for is not there."""
    return all(result.raised is None for result in booted) and booted[1].applied is not None
