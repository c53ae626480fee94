# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the tests of a real card run on a made-up one (`-p card_stand_in`).

With `STAND_IN_BUSY` in the environment, half of the card is taken by somebody else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from startup_plan.harness import capabilities, card_child, card_remote

if TYPE_CHECKING:
    from pathlib import Path


def _put_in_place() -> None:
    """Put the stand-ins in place, before a conftest has imported what they stand for."""
    probes: Any = capabilities._PROBES
    probes["gpu"] = lambda: (True, "a stand-in")
    remote: Any = card_remote
    remote.CudaCard = card_remote.HostCard
    child: Any = card_child
    real = card_child.Nursery

    def nursery(script: Path, _backend: str, errors: Path) -> card_child.Nursery:
        return real(script, "host", errors)

    child.Nursery = nursery
    if "STAND_IN_BUSY" in os.environ:
        card: Any = card_remote.HostCard
        card.free = lambda self, _device=0: self.total // 2


_put_in_place()
