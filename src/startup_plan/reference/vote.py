# SPDX-License-Identifier: Apache-2.0
"""All ranks of a group apply their plans, or none does (GROUP-01).

Ranks that run collectives together while they profile must take the same path: a rank that applied
skips collectives in which its neighbour waits for ever. So they vote, over the CPU process group
of the engine, and one rank without a plan makes every rank profile.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Final

from . import vllm_access

VOTE_SECONDS: Final = "STARTUP_PLAN_VOTE_SECONDS"
"""Environment variable: how long a rank waits for the others' votes, in seconds."""

_DEFAULT_SECONDS: Final = 300.0


class VoteError(RuntimeError):
    """Some ranks never voted; the group cannot go on, since they would miss in profiling too."""


def objection(worker: Any, *, ready: bool) -> str:
    """Why this rank must not apply its plan, or "" if it may (GROUP-04: alone it always may).

    Every rank that has the feature on and no explicit value asks, whatever became of its own plan
    (GROUP-03): a vote in which one rank is missing does not come back.

    Args:
        worker: the asking worker.
        ready: whether this rank has a plan that it could apply.

    Raises:
        VoteError: the vote did not come back in the time that `VOTE_SECONDS` gives.
    """
    together = _ranks_together(worker.parallel_config)
    if together == 1:
        return "" if ready else "this rank has no plan to apply"
    if getattr(worker.parallel_config, "enable_elastic_ep", False):
        return "ranks may join this group later and cannot vote"
    group = _cpu_group(together)
    if group is None:
        return f"{together} ranks start together and have no CPU process group to vote in"
    ballots = _vote(group, ready)
    missing = [str(rank) for rank, ballot in enumerate(ballots) if not ballot]
    if not missing:
        return ""
    ranks = "rank" if len(missing) == 1 else "ranks"
    return f"outvoted, {ranks} {', '.join(missing)} of {len(ballots)} cannot apply a plan"


def _ranks_together(parallel: Any) -> int:
    """How many ranks run collectives together while they profile."""
    replicas = getattr(parallel, "data_parallel_size", 1)
    if getattr(parallel, "is_moe_model", None) is False:
        # Replicas of a dense model share nothing; those of a mixture of experts exchange tokens.
        replicas = 1
    together: int = parallel.world_size * replicas
    return together


def _cpu_group(together: int) -> Any:
    """The process group in which `together` ranks can vote, or None; the same on every rank."""
    try:
        import torch.distributed as dist  # noqa: PLC0415  # importing this package must not import torch

        try:
            group = vllm_access.world_group().cpu_group
        except (AssertionError, AttributeError, ModuleNotFoundError):
            group = dist.group.WORLD if dist.is_initialized() else None
        if group is None or dist.get_backend(group) != "gloo":
            return None
        return group if dist.get_world_size(group) >= together else None
    except (AttributeError, ImportError, RuntimeError, ValueError):
        return None


def _vote(group: Any, ready: bool) -> list[bool]:
    """The ballots of all ranks of the group, in the order of their ranks."""
    import torch  # noqa: PLC0415  # importing this package must not import torch

    dist, patience = torch.distributed, timedelta(seconds=_seconds())
    try:
        # Unlike any collective, this one knows which ranks did not come.
        dist.monitored_barrier(group, timeout=patience, wait_all_ranks=True)
        mine = torch.tensor([int(ready)])
        ballots = [torch.zeros_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(ballots, mine, group=group, async_op=True).wait(patience)
    except RuntimeError as error:
        raise VoteError(
            f"Startup plan: the ranks' vote on their plans did not come back within "
            f"{patience.total_seconds():g} s ({VOTE_SECONDS}); the silent ranks are named here or "
            f"in the log of rank 0: {error}"
        ) from error
    return [bool(ballot.item()) for ballot in ballots]


def _seconds() -> float:
    try:
        seconds = float(os.environ[VOTE_SECONDS])
    except (KeyError, ValueError):
        return _DEFAULT_SECONDS
    return seconds if 0 < seconds < 10**6 else _DEFAULT_SECONDS
