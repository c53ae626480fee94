# SPDX-License-Identifier: Apache-2.0
"""What has to behave on a card before it may judge anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.control import Control

from .scenarios import SCENARIOS, fits

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .card import Card

NEEDS: Final = next(iter(SCENARIOS.values()))
"""The scenario that is run; a card that is too busy for it is too busy for any."""


def card_control(opened: Callable[[Path], AbstractContextManager[Card]]) -> Control:
    """The control of a card.

    Args:
        opened: opens it for the reference, given an empty folder.
    """

    def attempt(folder: Path) -> str:
        with opened(folder) as card:
            fits(card, card.boot(card.order(utilization=0.4, enabled=False)))
            NEEDS.run(card)
        return ""

    return Control("gpu", "card", attempt)
