# SPDX-License-Identifier: Apache-2.0
"""The options that say what else a subject consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


def subject_options(command: _F) -> _F:
    """Add `--on` and `--adapter`; `SubjectName` makes one name of them and the subject."""
    command = click.option(
        "--adapter",
        metavar="FILE",
        help="A module that gives SUBJECT vLLM's functions: docs/adapters.md.",
    )(command)
    return click.option(
        "--on",
        metavar="SUBJECT",
        help="What vllm.v1.worker.startup_plan is to SUBJECT; by default the installed one.",
    )(command)
