# SPDX-License-Identifier: Apache-2.0
"""Whether a plan may be applied, and whether a measurement may be stored. Pure; sizes in bytes."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final, final

from .plan import NoPlanError

if TYPE_CHECKING:
    from .plan import Plan


_WORTH_MEASURING: Final = 20
"""A twentieth of the device, 5 %, is told to the operator."""


@final
class Memory:
    """What the worker knows of its device at this boot. All sizes are bytes.

    Args:
        free: free memory of the worker's own device when the boot began.
        total: memory of that device.
        utilization: `gpu_memory_utilization`, the share of `total` that the engine may use.
        weights: what the loaded weights take, or None if the worker does not say.
    """

    __slots__ = ("budget", "free", "total", "weights")

    def __init__(self, free: int, total: int, utilization: float, weights: int | None) -> None:
        """Derive the budget as vLLM does: the share of the device, rounded up."""
        self.free = free
        self.total = total
        self.budget = math.ceil(total * utilization)
        self.weights = weights


def refusal(plan: Plan, memory: Memory) -> str | None:
    """Why `plan` must not be applied now, or None if it may (GATE-01, GATE-03, GATE-08)."""
    kv, baseline = plan.kv_cache_memory_bytes, plan.free_memory_baseline
    if memory.free < baseline:
        return f"free memory {size(memory.free)} is below the recorded baseline {size(baseline)}"
    if kv > baseline:
        return f"its {size(kv)} are more than its own baseline {size(baseline)}"
    if kv > memory.budget:
        return f"its {size(kv)} are more than the budget {size(memory.budget)}"
    if (
        plan.weights_bytes is not None
        and memory.weights is not None
        and memory.weights > plan.weights_bytes
    ):
        return (
            f"the loaded weights take {size(memory.weights)}, "
            f"more than the {size(plan.weights_bytes)} of the boot that measured it"
        )
    return None


def is_small(plan: Plan, memory: Memory) -> bool:
    """Whether so much more is free than when it was measured that it pays to repeat (LOG-03)."""
    return (memory.free - plan.free_memory_baseline) * _WORTH_MEASURING > memory.total


def storable(value: object, memory: Memory) -> int:
    """`value` as the integer to store.

    Raises:
        NoPlanError: `value` is not integral, not positive, or more than the device had free or
            the engine was allowed, alone (SAVE-09) or with the loaded weights (SAVE-13).
    """
    if isinstance(value, bool):
        raise NoPlanError(f"{value!r} is a boolean, not a number of bytes")
    try:
        number = int(operator.index(value))  # type: ignore[arg-type]  # this is the question
    except (TypeError, ValueError):
        raise NoPlanError(f"{_shown(value)} is not a whole number of bytes") from None
    if number <= 0:
        raise NoPlanError(f"{size(number)} is not a positive size")
    if number > memory.free:
        raise NoPlanError(f"{size(number)} exceeds the baseline {size(memory.free)}")
    if number > memory.budget:
        raise NoPlanError(f"{size(number)} exceeds the budget {size(memory.budget)}")
    if memory.weights is not None and number + memory.weights > memory.budget:
        raise NoPlanError(
            f"{size(number)} and the {size(memory.weights)} of the loaded weights together exceed "
            f"the budget {size(memory.budget)}"
        )
    return number


def size(number: int) -> str:
    """`number` bytes for a log line: exact, and in GiB where a person can follow."""
    if number.bit_length() > 80:
        return f"a number of {number.bit_length()} bits"
    return f"{number} bytes ({number / 2**30:.2f} GiB)"


def _shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception as error:
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
