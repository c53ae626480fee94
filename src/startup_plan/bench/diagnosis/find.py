# SPDX-License-Identifier: Apache-2.0
"""Says why something was not reused, from what a benchmark kept: logs, environments, evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .causes import CAUSES, SUSPECTS
from .kept import load_results, load_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .kept import Cause, KeptRun

REUSE_CHECKS: Final = frozenset(
    {"artifacts-loaded", "plan-saved", "plan-applied", "equal-compile", "kv-size-equal"}
)
"""The checks that fail when something was not reused."""


@final
@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found.

    Args:
        failures: the checks about reuse that failed, in words.
        causes: the known causes that were seen.
    """

    failures: tuple[str, ...]
    causes: tuple[Cause, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was missed."""
        return not self.failures and not self.causes

    def lines(self) -> Iterator[str]:
        """Give it as text."""
        if self.is_clean:
            yield "everything that was to be reused was reused, and no known cause was seen"
            return
        yield from (f"failed: {failure}" for failure in self.failures)
        for cause in self.causes:
            yield f"{cause.name} ({cause.run})"
            yield from (f"  {fact}" for fact in cause.facts)
            yield f"  what to do: {cause.remedy}"
        if not self.causes:
            yield "no known cause was seen; the logs below runs/ have the rest"


def diagnose(folder: Path) -> Diagnosis:
    """Look for every known cause.

    Raises:
        RefusalError: `folder` holds no benchmark that can be read.
    """
    document = load_results(folder)
    runs = [run for entry in document["runs"] if (run := load_run(folder, entry)) is not None]
    something_failed = any(check["verdict"] == "failed" for check in document["checks"])
    finders = (*CAUSES, *SUSPECTS) if something_failed else CAUSES
    causes = tuple(
        cause for run in runs for find in finders for cause in find(run, _filled(run, runs))
    )
    failures = tuple(
        f"{check['name']} of {check['phase']}, round {check['repeat']}: {check['evidence']}"
        for check in document["checks"]
        if check["verdict"] == "failed" and check["name"] in REUSE_CHECKS
    )
    return Diagnosis(failures, causes)


def _filled(run: KeptRun, runs: list[KeptRun]) -> KeptRun | None:
    """Give the server that filled what `run` was to reuse."""
    source = {"cache-hit": "cache-fill", "first-reload": "cache-fill", "plan-hit": "plan-fill"}
    wanted = source.get(run.phase)
    return next((r for r in runs if r.phase == wanted and r.repeat == run.repeat), None)
