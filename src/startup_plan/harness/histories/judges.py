# SPDX-License-Identifier: Apache-2.0
"""Requirements that every boot of a history must keep, each judged by itself.

A judge sees one boot and what was known before it, and says in a clause what is wrong, or nothing.
Each looks only at its own sentence of the contract, so that a fault shows under the requirement
that it breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from startup_plan.harness.stubs.units import gib

from .history import short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .history import Event, History

PROFILE: Final = "profile_run"
ESTIMATE: Final = "profile_cudagraph_memory"
CAPTURE: Final = "capture_model"


def _boot_01(history: History, event: Event) -> str | None:
    """What one boot saved, the next boot of the same engine applies."""
    saved = event.saved
    if saved is None or not _may_apply(event) or saved.budget_moved:
        return None
    if event.result.free < saved.baseline or history.touchers(saved) - {event.key}:
        return None
    if not event.result.applied:
        return f"the {short(saved.value)} that the same engine saved were not applied"
    return None


def _boot_02(_: History, event: Event) -> str | None:
    """Applying skips the measurement and the estimate, and keeps the one profile run."""
    calls = event.result.calls
    if not event.result.applied or (calls.count(PROFILE) == 1 and ESTIMATE not in calls):
        return None
    return f"a boot that applied a plan ran {', '.join(calls)}"


def _boot_03(_: History, event: Event) -> str | None:
    """Not applying is the same as the feature switched off."""
    result = event.result
    if result.refused or result.where == "apply" or result.explicit is not None:
        return None
    if result.applied:
        return None
    wanted = [PROFILE, ESTIMATE, *([CAPTURE] if result.measurable > 0 else [])]
    if result.calls != wanted:
        return f"it ran {', '.join(result.calls)} instead of {', '.join(wanted)}"
    if result.kv != result.measurable:
        return f"it reached {short(result.kv)} instead of {short(result.measurable)}"
    return None


def _boot_04(_: History, event: Event) -> str | None:
    """A boot that applied rewrites nothing."""
    changed = event.touched | event.litter
    if not event.result.applied or not changed:
        return None
    return f"a boot that applied a plan changed {', '.join(sorted(changed))}"


def _boot_05(_: History, event: Event) -> str | None:
    """Applying leaves the config hash unchanged."""
    if not event.result.applied:
        return None
    before, after = event.result.hashes
    if before == after:
        return None
    return f"applying changed compute_hash() from {before} to {after}"


def _boot_06(history: History, event: Event) -> str | None:
    """A lowered budget is measured anew and kept; raised back, the first plan is used again."""
    result, saved = event.result, event.saved
    lowered = any(utilization > result.utilization for utilization in event.others)
    if lowered and result.applied and (saved is None or result.needed > result.budget):
        needs = short(result.needed)
        return f"a plan of another budget was applied: needs {needs} of {short(result.budget)}"
    if saved is None or not saved.budget_moved or not _may_apply(event):
        return None
    base = event.key[0]
    if result.free < saved.baseline or any(
        toucher is None or toucher[0] != base for toucher in history.touchers(saved)
    ):
        return None
    if not result.applied:
        return f"the {short(saved.value)} saved at this utilization were not used again"
    return None


def _boot_07(_: History, event: Event) -> str | None:
    """No boot raises, runs out of memory, or applies what is not the last value saved."""
    result = event.result
    if result.raised is not None:
        return "the plan stopped the boot"
    if result.out_of_memory and result.explicit is None:
        return f"out of memory: needs {short(result.needed)} of {short(result.free)} free"
    applied = result.applied
    # 0 left behind by a refusal is GATE-07's matter.
    if not applied or applied in result.legal:
        return None
    if not result.legal:
        return "no boot with these inputs had saved anything"
    legal = " or ".join(gib(value) for value in sorted(result.legal))
    shown = gib(applied) if type(applied) is int else repr(applied)
    return f"{shown} is not what was saved last with these inputs, {legal}"


def _gate_05(_: History, event: Event) -> str | None:
    """An explicit value stays, and no plan is written."""
    result = event.result
    if result.explicit is None or result.worker is None or result.where:
        return None
    left = result.worker.cache_config.kv_cache_memory_bytes
    if left is not result.explicit and (type(left) is not int or left != result.explicit):
        return f"the explicit value became {short(left)}"
    if event.touched:
        return f"beside an explicit value {', '.join(sorted(event.touched))} was written"
    return None


def _gate_06(_: History, event: Event) -> str | None:
    """With the feature off nothing happens."""
    result = event.result
    if event.enabled:
        return None
    if event.touched or event.litter:
        return f"the feature was off and {', '.join(event.touched | event.litter)} was written"
    if result.queries:
        return f"the feature was off and the device was asked for its {result.queries[0][0]}"
    if result.applied is not None:
        return f"the feature was off and {short(result.applied)} were set"
    return None


def _gate_07(_: History, event: Event) -> str | None:
    """What is not applied leaves None behind."""
    applied = event.result.applied
    if applied is None or applied:
        return None
    return f"the refusal left kv_cache_memory_bytes at {applied!r} instead of None"


def _may_apply(event: Event) -> bool:
    """Whether nothing but the plan itself decides about this boot, and it came to its end."""
    result = event.result
    if result.refused or result.raised is not None or result.explicit is not None:
        return False
    return event.enabled and event.alone


JUDGES: Final[Mapping[str, Callable[[History, Event], str | None]]] = {
    "BOOT-01": _boot_01,
    "BOOT-02": _boot_02,
    "BOOT-03": _boot_03,
    "BOOT-04": _boot_04,
    "BOOT-05": _boot_05,
    "BOOT-06": _boot_06,
    "BOOT-07": _boot_07,
    "GATE-05": _gate_05,
    "GATE-06": _gate_06,
    "GATE-07": _gate_07,
}
"""Requirement -> its judge."""
