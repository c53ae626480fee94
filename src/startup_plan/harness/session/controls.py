# SPDX-License-Identifier: Apache-2.0
"""Controls come first: a layer that fails the reference says nothing about anybody else.

    pytestmark = [pytest.mark.vllm, pytest.mark.control(GROUP)]

A control is done when the first test asks for it, once a run, also where several workers ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.support.scratch import fastest_folder, scratch_folder

from .once import once

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.contract.control import Control

_ANSWERS: Final = pytest.StashKey[dict[str, str]]()

BEHAVED: Final = "its control behaved"
FAILED: Final = "its control did not behave, so nothing here is the subject's"


def controls_of(item: pytest.Item) -> tuple[Control, ...]:
    """The controls that a test asks for, each once, those of its module first."""
    marks = reversed(list(item.iter_markers("control")))
    return tuple(dict.fromkeys(control for mark in marks for control in mark.args))


def stand(config: pytest.Config, control: Control) -> tuple[bool, str]:
    """Whether a layer may judge here, and the words for the report.

    Args:
        config: of the session.
        control: of the layer.
    """
    answers = config.stash.setdefault(_ANSWERS, {})
    if control.name not in answers:
        factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
        key = f"control-{control.name.replace('/', '-')}"
        answers[control.name] = once(key, _attempt(control), factory)
    words = answers[control.name]
    return not words, f"{FAILED}: {words}" if words else BEHAVED


def _attempt(control: Control) -> Callable[[], str]:
    def attempt() -> str:
        try:
            with scratch_folder(fastest_folder()) as folder:
                return control.attempt(folder)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return attempt
