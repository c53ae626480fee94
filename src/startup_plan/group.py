# SPDX-License-Identifier: Apache-2.0
"""All ranks of a group apply their plans, or none does (GROUP-01).

Ranks that run collectives together while they profile must take the same path: a rank that applied
skips collectives in which its neighbour waits for ever. Until this module holds a vote over the
engine's CPU process group, only an engine whose rank is alone can apply; in a larger group every
rank profiles, which is slow and safe.
"""

from __future__ import annotations

from typing import Any


def objection(worker: Any, *, ready: bool) -> str:
    """Why this rank must not apply its plan, or "" if it may (GROUP-04: alone it always may).

    Every rank that has the feature on and no explicit value asks, whatever became of its own plan
    (GROUP-03): a vote in which one rank is missing never ends.

    Args:
        worker: the asking worker.
        ready: whether this rank has a plan that it could apply.
    """
    if not ready:
        return "this rank has no plan to apply"
    parallel = worker.parallel_config
    if parallel.world_size > 1:
        return f"{parallel.world_size} ranks start together and cannot vote"
    replicas = getattr(parallel, "data_parallel_size", 1)
    if replicas > 1 and getattr(parallel, "is_moe_model", None) is not False:
        # Experts are spread over the replicas, whose profile runs exchange tokens.
        return f"{replicas} data-parallel replicas start together and cannot vote"
    return ""
