# SPDX-License-Identifier: Apache-2.0
"""What of two answers must be equal, and what may differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAY_VARY: Final = ("id", "created", "logprobs", "prompt_logprobs")
"""Names of fields within a choice that are not compared: they differ from one answer to the next,
or are numbers that depend on the order of additions."""

_SHOWN: Final = 80


def choices_of(body: bytes) -> list[Any]:
    """Give the choices of an answer, with what may vary left out; none if it is no such answer."""
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return []
    choices = document.get("choices") if isinstance(document, dict) else None
    return [_kept(choice) for choice in choices] if isinstance(choices, list) else []


def first_difference(one: Any, other: Any, where: str = "choices") -> str | None:
    """Say where two lists of choices differ first, and how; None if they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs: Iterator[tuple[str, Any, Any]] = (
            (f"{where}.{name}", one.get(name), other.get(name))
            for name in sorted(one.keys() | other.keys())
        )
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = ((f"{where}[{n}]", *pair) for n, pair in enumerate(zip(one, other, strict=True)))
    elif type(one) is type(other) and one == other:
        return None
    else:
        return f"{where}: {_shown(one)} and {_shown(other)}"
    return next((words for pair in pairs if (words := first_difference(*_order(pair)))), None)


def cut_short(choices: list[Any]) -> bool:
    """Whether an answer ended because it reached its length limit."""
    return any(isinstance(c, dict) and c.get("finish_reason") == "length" for c in choices)


def _order(pair: tuple[str, Any, Any]) -> tuple[Any, Any, str]:
    return pair[1], pair[2], pair[0]


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kept(inner) for name, inner in value.items() if name not in MAY_VARY}
    return [_kept(inner) for inner in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    words = json.dumps(value, ensure_ascii=False)
    return words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
