# SPDX-License-Identifier: Apache-2.0
"""Whether a subject can be judged at all, found out in a process that it may harm as it likes.

A subject is somebody's file. Whoever judges never imports it before it has been imported, has
looked a plan up and has saved one in a process apart, within a time, and has left that process as
it was.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from typing import Any, Final, NamedTuple

from startup_plan.support.apart import AnsweredError, ApartError, run_apart
from startup_plan.support.scratch import fastest_folder
from startup_plan.support.seal import Seal, described, settings_kept

from .engine import Engine
from .loading import SubjectError, load_subject
from .world import World

SECONDS: Final = 20.0
"""How long a subject may take to be imported and to boot twice."""

_STEPS: Final = ("imported it", "let it look a plan up and save one", "let it look its plan up")


class Tried(NamedTuple):
    """A subject that can be loaded: where it lies, and what its bytes are."""

    name: str
    file: str
    sha256: str
    version: str


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
    with (
        tempfile.TemporaryDirectory(dir=fastest_folder()) as folder,
        # Whatever it raises is for the tests to judge.
        contextlib.suppress(Exception),
        World(subject, folder) as world,
    ):
        for number in (1, 2):
            step[0] = number
            with settings_kept():
                world.boot(Engine())
    if replaced := seal.broken():
        raise SubjectError(
            f"{name} cannot be judged: it {described(replaced)}, so that nothing it says can be "
            "trusted; let it keep to its own module"
        )
    return Tried(subject.name, subject.file, subject.sha256, subject.version)
