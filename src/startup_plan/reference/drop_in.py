# SPDX-License-Identifier: Apache-2.0
"""The drop-in: an installed, unmodified vLLM uses this package's startup plan instead of its own.

vLLM calls `install` in every process of an engine, because it is an entry point of the group
`vllm.general_plugins`. It does nothing unless `STARTUP_PLAN_PLUGIN=1`; without the variable the
engine is as it was. Whatever goes wrong here is said in an error line of the log, vLLM keeps its
own module whole, and the engine boots.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from startup_plan.version import __version__

from . import known_workers, vllm_access
from .worker import compute_plan_fingerprint, maybe_apply_startup_plan, maybe_save_startup_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SWITCH: Final = "STARTUP_PLAN_PLUGIN"
"""1 turns the drop-in on; 0, or no such variable, leaves it off. Nothing else has a meaning."""

_PLAN: Final = "vllm.v1.worker.startup_plan"
_WORKER: Final = "vllm.v1.worker.gpu_worker"
_FLAG: Final = "VLLM_ENABLE_STARTUP_PLAN"

_OURS: Final[Mapping[str, Callable[..., Any]]] = {
    "compute_plan_fingerprint": compute_plan_fingerprint,
    "maybe_apply_startup_plan": maybe_apply_startup_plan,
    "maybe_save_startup_plan": maybe_save_startup_plan,
}

_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "compute_plan_fingerprint": ("vllm_config", "rank", "world_size"),
    "maybe_apply_startup_plan": ("worker",),
    "maybe_save_startup_plan": ("worker", "kv_cache_memory_bytes"),
}
"""What vLLM's own functions are called with, by position or by name."""


class UnknownVllmError(Exception):
    """This vLLM is not one that the drop-in knows; the message is the reason."""


def install() -> None:
    """Put this package's functions in the place of vLLM's, if the switch says so; never raises.

    vLLM may call this several times in one process; only the first time does and says something.
    """
    asked = os.environ.get(SWITCH)
    if asked is None or asked == "0":
        return
    try:
        if announcement := _replace(asked):
            logger = _logger()
            # An API server loads its plugins before it sets up its log, which then shows warnings
            # only; that the drop-in is in use must be seen all the same.
            level = logging.INFO if logger.hasHandlers() else logging.WARNING
            logger.log(level, "startup-plan %s: %s.", __version__, announcement)
    except Exception as error:
        reason = str(error) if isinstance(error, UnknownVllmError) else _told(error)
        _logger().error(
            "startup-plan %s: not in use, vLLM keeps its own startup plan: %s.",
            __version__,
            reason,
        )


def _replace(asked: str) -> str:
    """Rebind vLLM's functions wherever a loaded module holds them; what to say about it.

    Modules that are imported later find ours in the place that they import from.

    Returns:
        The announcement, or "" if ours are in place already.

    Raises:
        UnknownVllmError: the switch has no meaning or this is no vLLM that is known. Nothing has
            been rebound.
    """
    if asked != "1":
        raise UnknownVllmError(f"{SWITCH} is {asked!r}, and only 1 and 0 have a meaning")
    try:
        shipped = importlib.import_module(_PLAN)
    except Exception as error:
        raise UnknownVllmError(f"{_PLAN} cannot be imported ({_told(error)})") from error
    if all(getattr(shipped, name, None) is ours for name, ours in _OURS.items()):
        return ""
    originals = {name: _known(shipped, name) for name in _OURS}
    _check_worker()
    if not hasattr(vllm_access.envs(), _FLAG):
        raise UnknownVllmError(f"this vLLM has no {_FLAG}")
    # All that can go wrong comes before the rebinding, after which ours are in use.
    idle = "" if getattr(vllm_access.envs(), _FLAG) else f"; it does nothing without {_FLAG}=1"
    version = vllm_access.version()
    rebound = _rebind({id(original): _OURS[name] for name, original in originals.items()})
    return f"in use instead of the startup plan of vLLM {version}, {rebound} names rebound{idle}"


def _known(shipped: Any, name: str) -> Any:
    """The function that vLLM ships under `name`, called as we expect."""
    function = getattr(shipped, name, None)
    if not inspect.isfunction(function) or function.__module__ != _PLAN:
        raise UnknownVllmError(f"{_PLAN} has no function {name} of its own")
    parameters = inspect.signature(function).parameters.values()
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
    if not plain or tuple(p.name for p in parameters) != _PARAMETERS[name]:
        raise UnknownVllmError(f"{_PLAN}.{name} takes {inspect.signature(function)}")
    return function


def _check_worker() -> None:
    try:
        spec = importlib.util.find_spec(_WORKER)
        loader: Any = spec.loader if spec else None
        source = loader.get_source(_WORKER)
    except Exception as error:
        raise UnknownVllmError(
            f"the source of {_WORKER} cannot be found ({_told(error)})"
        ) from error
    if not source:
        raise UnknownVllmError(f"{_WORKER} has no source that could be read")
    if objection := known_workers.objection(source, _PLAN):
        raise UnknownVllmError(f"{_WORKER} is not a worker that is known: {objection}")
    loaded = sys.modules.get(_WORKER)
    shipped = sys.modules[_PLAN]
    for name in (known_workers.APPLY, known_workers.SAVE):
        # Without the name it is being imported just now, and will find ours.
        held = getattr(loaded, name, None)
        if held is not None and held is not getattr(shipped, name):
            raise UnknownVllmError(f"{_WORKER}.{name} has been replaced by somebody else")


def _rebind(replacements: Mapping[int, Any]) -> int:
    """Replace, in the globals of every loaded module, each object by what is given for its id."""
    done: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if not isinstance(names, dict):
                continue
            for name, value in list(names.items()):
                if (ours := replacements.get(id(value))) is not None:
                    done.append((names, name, value))
                    names[name] = ours
    except BaseException:
        for names, name, value in done:
            names[name] = value
        raise
    return len(done)


def _logger() -> logging.Logger:
    try:
        return vllm_access.logger()
    except Exception:
        # Broken as it may be, what is said must be seen.
        return logging.getLogger("startup_plan")


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
