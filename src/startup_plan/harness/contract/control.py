# SPDX-License-Identifier: Apache-2.0
"""A control: what a layer of the suite does with an implementation of which all is known.

Tests that stand on something installed judge a stranger by what a release, a kernel, or a card does
around it. Only where the reference, and a boot with the feature off, behave there is the stranger
to blame for what is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFERENCE = "reference"
"""The subject with which controls are done."""


@final
@dataclass(frozen=True, slots=True)
class Control:
    """What must behave before a layer may judge.

    Attributes:
        capability: what the layer stands on ("vllm").
        layer: which part of it ("worker").
        attempt: given an empty folder, does what tests of the layer do; returns what did not
            behave, "" if all did. Whatever it raises did not behave either.
    """

    capability: str
    layer: str
    attempt: Callable[[Path], str]

    @property
    def name(self) -> str:
        """How reports call it; the capability stands before the slash."""
        return f"{self.capability}/{self.layer}"


def capability_of(name: str) -> str:
    """The capability of which a name in a report tells: its own, or that of a control."""
    return name.partition("/")[0]
