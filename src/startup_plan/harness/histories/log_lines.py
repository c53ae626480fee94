# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of a boot, and what a line says in whatever words.

A subject words its lines as it likes. So nothing here looks for a sentence: a line is asked for
numbers and names that it must have, and one boot's lines are held against those of another.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION, Engine

from .scenes import tale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.world.outcome import BootResult
    from startup_plan.harness.world.world import World

SEEN: Final = ("info", "warning", "error", "exception", "critical")
"""Levels that an operator sees."""


def plain_engine(utilization: float = 0.6) -> Engine:
    """An engine that leaves room for a co-tenant."""
    engine = Engine()
    engine.set(UTILIZATION, utilization)
    return engine


def listen(world: World, engine: Engine, **options: Any) -> tuple[BootResult, list[str], list[str]]:
    """Boot, and give what an operator saw of the look-up and of the save."""
    looked_up = 0

    @contextlib.contextmanager
    def during_load() -> Iterator[None]:
        nonlocal looked_up
        try:
            yield
        finally:
            looked_up = len(world.simulation.log)

    result = world.boot(engine, during_load=during_load(), **options)
    return result, _seen(result.log[:looked_up]), _seen(result.log[looked_up:])


def _seen(log: list[tuple[str, str]]) -> list[str]:
    return [line for level, line in log if level in SEEN]


def one_line(requirement: str, world: World, lines: list[str], about: str) -> str:
    """The one line that was said about something.

    Raises:
        Violation: nothing was said, or more than one line.
    """
    said = [part for line in lines for part in line.splitlines()]
    if not said:
        raise Violation(requirement, tale(world, f"no line says {about}"))
    if len(said) > 1:
        raise Violation(requirement, tale(world, f"{len(said)} lines say {about}: {said}"))
    return said[0]


def mentions(line: str, number: int) -> bool:
    """Whether a number of bytes stands in a line: exact, or in GiB with two decimals or more."""
    plain = re.sub(r"(?<=\d)[,_](?=\d{3})", "", line)
    forms = (str(number), re.escape(f"{number / GIB:.2f}"))
    return any(re.search(rf"(?<![\d.]){form}", plain) for form in forms)


def added_words(world: World, lines: list[str], usual: list[str]) -> set[str]:
    """The words that these lines have and the usual ones have not, in lower case, `-` as `_`.

    Keys and numbers are no words; a path below the cache root is the word `path`, always added.
    """
    return _words(world, lines) - (_words(world, usual) - {PATH})


PATH: Final = "path"
"""Stands for a path below the cache root."""

_KEY: Final = re.compile(r"[0-9a-f]{16}")


def _words(world: World, lines: list[str]) -> set[str]:
    text = re.sub(rf"{re.escape(world.cache_root)}\S*", PATH, "\n".join(lines)).lower()
    found = re.findall(r"[a-z0-9_][a-z0-9_./-]*", text.replace("-", "_"))
    return {word.strip("./") for word in found if not _KEY.fullmatch(word)}
