# SPDX-License-Identifier: Apache-2.0
"""Attributes that vLLM's own worker, model runner or configuration has, and the stub of it has not.

A subject that asks for one meets a limit of the simulation, which says nothing about the subject. A
name that vLLM does not have either is an `AttributeError` there and here. `vllm_attributes.json`
has vLLM's names (`scripts/list_attributes.py`).
"""

from __future__ import annotations

import dis
import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .unknown import note

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from types import FrameType

_LIST: Final = Path(__file__).with_name("vllm_attributes.json")
_DIRECT: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


@functools.cache
def names() -> dict[str, frozenset[str]]:
    """Class of vLLM -> the names of its attributes; both GPU runners are `ModelRunner`."""
    listed: dict[str, list[str]] = json.loads(_LIST.read_text("utf-8"))
    return {owner: frozenset(attributes) for owner, attributes in listed.items()}


def lacking(owner: str, *, except_for: Container[str] = ()) -> Callable[[Any, str], Any]:
    """`__getattr__` for the stub of vLLM's class `owner`.

    Args:
        owner: its name in the list.
        except_for: names that the stub has at other times, as vLLM's class does.
    """

    def getattr_(_: object, name: str) -> Any:
        # Who asks with `hasattr`, or names a default, has thought of its absence.
        if (
            name in names().get(owner, ())
            and name not in except_for
            and _is_direct(sys._getframe(1))
        ):
            raise note(
                f"it asks vLLM's {owner} for {name!r}, which the simulated one does not have "
                "(give it one in harness/stubs/worker.py or configs.py)"
            )
        raise AttributeError(f"{owner!r} object has no attribute {name!r}")

    return getattr_


def _is_direct(frame: FrameType) -> bool:
    """Whether what `frame` is at is `object.name`, and no call."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in _DIRECT
