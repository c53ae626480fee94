# SPDX-License-Identifier: Apache-2.0
"""From the spelling of a crash state to that state, before anything is judged."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.harness.world.try_out import try_out
from startup_plan.harness.world.world import World
from startup_plan.support.apart import ApartError, run_apart
from startup_plan.support.scratch import fastest_folder

from .models import MODELS, StateId, parse_state
from .trial import WORKLOADS, CrashTrial

_SECONDS: Final = 60.0
"""How long recording a save and listing its states may take."""


class UnknownStateError(Exception):
    """There is no such state; one sentence says what there is."""


def check_state(text: str, subject: str) -> None:
    """See that `text` spells a state, and that the saves of `subject` can lead to it.

    Raises:
        UnknownStateError: the spelling, the workload or the model is none, or this subject's saves
            lead to no such state.
        SubjectError: the subject cannot be loaded, or does not leave the process alone in which
            its saves are recorded.
    """
    state = parse_state(text)
    if state is None:
        raise UnknownStateError(
            f"{text!r} spells no crash state; they look like "
            "crash[overwrite,k=3,dir=1,data=torn:17,ordered], as reports name them"
        )
    if state.workload not in WORKLOADS:
        raise UnknownStateError(
            f"there is no workload {state.workload!r}; there are {', '.join(WORKLOADS)}"
        )
    if state.model not in MODELS:
        raise UnknownStateError(
            f"there is no persistence model {state.model!r}; there are {', '.join(MODELS)}"
        )
    try_out(subject)
    try:
        count = run_apart(lambda: _operations_without(state, subject), seconds=_SECONDS)
    except ApartError as error:
        raise SubjectError(
            f"{subject} cannot be judged: the process that recorded its save {error}"
        ) from None
    if count is not None:
        raise UnknownStateError(
            f"the saves of {subject} lead to no state {text}: the workload {state.workload} has "
            f"{count} operations; take the id from a report on this very subject"
        )


def _operations_without(state: StateId, subject: str) -> int | None:
    """How many operations the workload has, if it leads to no such state; otherwise None."""
    loaded = load_subject(subject)
    with tempfile.TemporaryDirectory(dir=fastest_folder()) as folder:
        disk, scratch = os.path.join(folder, "disk"), os.path.join(folder, "scratch")
        os.mkdir(disk)
        os.mkdir(scratch)
        # A save that breaks its promise is for the run itself to judge.
        with contextlib.suppress(Violation), World(loaded, disk) as world:
            trial = CrashTrial(world, state.workload, scratch)
            if not any(found.state == state for found in trial.states()):
                return len(trial.history)
    return None
