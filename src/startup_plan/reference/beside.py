# SPDX-License-Identifier: Apache-2.0
"""What a boot that finds no plan lies beside: another plan of its model and device (LOG-03).

An operator who has changed one setting wants to read its name, not a key. The accounts that plans
carry are compared, of a few plans and up to a bound, and nobody decides by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from . import plan, store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME: Final = re.compile(r"startup_plan_([0-9a-f]{16})\.json")
_MOST_NAMES: Final = 256
_MOST_PLANS: Final = 8
_MOST_BYTES: Final = 128 * 1024
_MOST_TOLD: Final = 6
_MODEL: Final = "settings.model_config.model"
_SAME: Final = ("device_name", "rank", _MODEL)
_SUMMARY: Final = "config_hash"


def difference(folder: str, account: Mapping[str, Any]) -> str:
    """The clause that names what tells this boot from the plan most like it; "" if there is none.

    Args:
        folder: where plans lie.
        account: this boot's, as its own plan would carry it.

    Raises:
        OSError: the folder cannot be listed.
    """
    mine, best = _flat(account), None
    for key, factors in _plans(folder):
        other = _flat(factors)
        if any(mine.get(name) != other.get(name) for name in _SAME):
            continue
        names = sorted(name for name in mine | other if mine.get(name) != other.get(name))
        if best is None or len(names) < len(best[1]):
            best = key, names
    if best is None:
        return ""
    # The hash sums up settings that have names of their own.
    names = [name for name in best[1] if name != _SUMMARY] or best[1]
    return f"; beside it lies {best[0]}, which differs in {_told(names)}"


def _told(names: list[str]) -> str:
    if not names:
        return "what a plan does not record"
    more = len(names) - _MOST_TOLD
    return ", ".join(names[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def _plans(folder: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Key and account of the plans that were saved last."""
    found: list[tuple[float, int, str, str]] = []
    with os.scandir(folder) as entries:
        for entry, _ in zip(entries, range(_MOST_NAMES), strict=False):
            match = _NAME.fullmatch(entry.name)
            if match is not None and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, match[1], entry.path))
    left = _MOST_BYTES
    for _, length, key, path in sorted(found, reverse=True)[:_MOST_PLANS]:
        left -= length
        if left < 0:
            return
        with contextlib.suppress(plan.NoPlanError):
            data = store.load(path)
            if data is not None:
                yield key, plan.decode(data, key).factors


def _flat(account: Mapping[str, Any]) -> dict[str, str]:
    """Dotted name -> value as text, so that what was read compares with what is at hand."""
    flat: dict[str, str] = {}
    for name, value in account.items():
        if isinstance(value, dict) and name in {"settings", "environment", "libraries"}:
            flat |= {f"{name}.{inner}": json.dumps(item) for inner, item in value.items()}
        else:
            flat[name] = json.dumps(value)
    return flat
