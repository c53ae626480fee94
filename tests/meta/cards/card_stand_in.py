# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the tests of a real card run on a made-up one (`-p card_stand_in`).

With `STAND_IN_BUSY` in the environment, half of the card is taken by somebody else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from startup_plan.harness.cards import processes
from startup_plan.harness.contract import capabilities
from startup_plan.support import line_child

if TYPE_CHECKING:
    from pathlib import Path


def _put_in_place() -> None:
    """Put the stand-ins in place, before a conftest has imported what they stand for."""
    probes: Any = capabilities._PROBES
    probes["gpu"] = lambda: (True, "a stand-in")
    remote: Any = processes
    remote.CudaCard = processes.HostCard
    child: Any = line_child
    real = line_child.Nursery

    def nursery(script: Path, _backend: str, errors: Path) -> line_child.Nursery:
        return real(script, "host", errors)

    child.Nursery = nursery
    if "STAND_IN_BUSY" in os.environ:
        card: Any = processes.HostCard
        card.free = lambda self, _device=0: self.total // 2


_put_in_place()
