# SPDX-License-Identifier: Apache-2.0
"""Lists that a person types: requirement ids and capabilities, split, checked, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import capabilities

if TYPE_CHECKING:
    from .register import Register


class ChoiceError(ValueError):
    """What was typed names nothing, or something that there is not; one sentence says what."""


def known_ids(option: str, text: str | None, register: Register) -> tuple[str, ...]:
    """The requirement ids in `text`; none where the option was not given.

    Raises:
        ChoiceError: the list is empty, or an id is not in the register.
    """
    ids = _split(option, text)
    for requirement_id in ids:
        if requirement_id not in register:
            raise ChoiceError(f"{option}: {register.describe_unknown(requirement_id)}")
    return ids


def known_capabilities(option: str, text: str | None) -> tuple[str, ...]:
    """The capabilities in `text`; none where the option was not given.

    Raises:
        ChoiceError: the list is empty, or a name is none of a capability.
    """
    names = _split(option, text)
    for name in names:
        if name not in capabilities.names():
            raise ChoiceError(f"{option}: {capabilities.describe_unknown(name)}")
    return names


def _split(option: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    parts = tuple(dict.fromkeys(part for piece in text.split(",") if (part := piece.strip())))
    if not parts:
        raise ChoiceError(f"{option} names nothing; give a list such as A,B")
    return parts
