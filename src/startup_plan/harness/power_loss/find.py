# SPDX-License-Identifier: Apache-2.0
"""From the spelling of a crash state to that state, before anything is judged."""

from __future__ import annotations

import os
import tempfile

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.harness.world.world import World
from startup_plan.support.scratch import fastest_folder

from .models import MODELS, StateId, parse_state
from .trial import WORKLOADS, CrashTrial


class UnknownStateError(Exception):
    """There is no such state; one sentence says what there is."""


def find_state(text: str, subject: str) -> StateId:
    """The state that `text` spells, if the saves of `subject` can lead to it.

    Raises:
        UnknownStateError: the spelling, the workload or the model is none, or this subject's saves
            lead to no such state.
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
    try:
        loaded = load_subject(subject)
        with tempfile.TemporaryDirectory(dir=fastest_folder()) as folder:
            disk, scratch = os.path.join(folder, "disk"), os.path.join(folder, "scratch")
            os.mkdir(disk)
            os.mkdir(scratch)
            with World(loaded, disk) as world:
                trial = CrashTrial(world, state.workload, scratch)
                if any(found.state == state for found in trial.states()):
                    return state
                count = len(trial.history)
    except (SubjectError, Violation):
        return state  # the run itself will say what is wrong with the subject
    raise UnknownStateError(
        f"the saves of {subject} lead to no state {text}: the workload {state.workload} has "
        f"{count} operations; take the id from a report on this very subject"
    )
