# SPDX-License-Identifier: Apache-2.0
"""The phases of a benchmark: what each one sets, and what it needs to have gone before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from startup_plan.bench.errors import RefusalError
from startup_plan.support.environment import FLAG

if TYPE_CHECKING:
    from collections.abc import Mapping

DISABLE_CACHE: Final = "VLLM_DISABLE_COMPILE_CACHE"
FORCE_LOAD: Final = "VLLM_FORCE_AOT_LOAD"


@final
@dataclass(frozen=True, slots=True)
class Phase:
    """One way to launch the server.

    Args:
        name: as on the command line.
        words: what is different about it, for the report.
        settings: the variables of vLLM that it sets.
        needs: the phase that must have run before in the same repeat.
        own_caches: true if it starts with empty caches that nobody else uses.
        by_default: whether it runs when no phases are named.
    """

    name: str
    words: str
    settings: Mapping[str, str]
    needs: str | None = None
    own_caches: bool = False
    by_default: bool = True


def _settings(*, disable_cache: int = 0, plan: int = 0, force_load: int = 0) -> dict[str, str]:
    return {
        DISABLE_CACHE: str(disable_cache),
        FLAG: str(plan),
        FORCE_LOAD: str(force_load),
    }


PHASES: Final = (
    Phase(
        "uncached",
        "the compile cache is off, all caches are empty",
        _settings(disable_cache=1),
        own_caches=True,
    ),
    Phase("cache-fill", "the compile cache is on and empty", _settings()),
    Phase(
        "first-reload",
        "the first reload, on a copy of the caches, and a load that fails is fatal",
        _settings(force_load=1),
        needs="cache-fill",
        by_default=False,
    ),
    Phase("cache-hit", "the compile cache as cache-fill left it", _settings(), needs="cache-fill"),
    Phase(
        "plan-fill",
        "warm compile cache, startup plan on, no plan yet",
        _settings(plan=1),
        needs="cache-fill",
    ),
    Phase(
        "plan-hit",
        "warm compile cache, startup plan on, plan as plan-fill left it",
        _settings(plan=1),
        needs="plan-fill",
    ),
)
"""All phases, in the order in which they run."""


def choose_phases(text: str | None) -> tuple[Phase, ...]:
    """Give the phases of a list such as `cache-fill,cache-hit`, in the order in which they run.

    Raises:
        RefusalError: a name is unknown, or a phase lacks the one that it builds on.
    """
    if text is None:
        return tuple(phase for phase in PHASES if phase.by_default)
    names = [name for piece in text.split(",") if (name := piece.strip())]
    known = [phase.name for phase in PHASES]
    for name in names:
        if name not in known:
            raise RefusalError(
                f"--phases: there is no phase {name!r}; there are {', '.join(known)}"
            )
    chosen = tuple(phase for phase in PHASES if phase.name in names)
    if not chosen:
        raise RefusalError(f"--phases names nothing; there are {', '.join(known)}")
    for phase in chosen:
        if phase.needs is not None and phase.needs not in names:
            raise RefusalError(f"--phases: {phase.name} needs {phase.needs} before it; add it")
    return chosen
