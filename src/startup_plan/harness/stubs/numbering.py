# SPDX-License-Identifier: Apache-2.0
"""Three ways to count devices, and how vLLM's platforms get from one to another.

The rules are those of `vllm/platforms/interface.py` of 0.33.0: a logical number indexes the cards
that vLLM was assigned, else the control variable, else it is the card itself; a visible number
indexes the control variable. Both variables and assignments are what a process finds, so that
nothing here is kept from one question to the next.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import Device

_UUID: Final = re.compile(r"(GPU|MIG)-([0-9a-f]{8})-")


class DriverError(Exception):
    """The driver knows no such device; like NVML's errors it is no RuntimeError."""


def uuid_of(devices: Sequence[Device], index: int) -> str:
    """The name under which the driver knows a device, whatever its number."""
    kind = "GPU" if devices[index].slice_of is None else "MIG"
    return f"{kind}-{index + 1:08x}-5eed-4000-8000-0123456789ab"


@final
class Numbering:
    """The devices of a host as one process counts them.

    Args:
        devices: the cards by the driver's number, and after them slices of cards (MIG).
        control: the value of the control variable, "" where it is unset.
        assigned: the cards that vLLM was assigned, or None.
        asks_driver: whether the control variable may name a device as the driver does.
        platform: the name of the platform, for its errors.
    """

    __slots__ = ("_asks_driver", "_assigned", "_control", "_devices", "_platform")

    def __init__(
        self,
        devices: Sequence[Device],
        control: str,
        assigned: Sequence[int] | None,
        *,
        asks_driver: bool,
        platform: str,
    ) -> None:
        """Count nothing yet."""
        self._devices = devices
        self._control = control
        self._assigned = assigned
        self._asks_driver = asks_driver
        self._platform = platform

    def visible(self) -> list[int]:
        """Indices of the devices that torch sees, in its order."""
        if not self._control:
            return [i for i, device in enumerate(self._devices) if device.slice_of is None]
        return [self._named(name) for name in self._control.split(",")]

    def card(self, number: int) -> int:
        """The index of the card with the driver's `number`.

        Raises:
            DriverError: there is none.
        """
        if 0 <= number < len(self._devices) and self._devices[number].slice_of is None:
            return number
        raise DriverError("Invalid Argument")

    def card_of_name(self, name: str) -> int:
        """The driver's number for one entry of the control variable.

        Raises:
            ValueError: the entry is no number, and this platform does not ask the driver.
            DriverError: the driver knows no such device.
        """
        try:
            return int(name)
        except ValueError:
            if not self._asks_driver:
                raise ValueError(
                    f"{self._platform} takes no device ID but integers, not {name!r}"
                ) from None
        index = self._named(name)
        parent = self._devices[index].slice_of
        # The driver counts the slices of each card by themselves, and vLLM takes that for a card.
        return index if parent is None else self._slices(parent).index(index)

    def card_of_logical(self, number: int) -> int:
        """The driver's number for a device as vLLM counts.

        Raises:
            IndexError: there is no such device; besides, as `card_of_name`.
        """
        if self._assigned is not None:
            if number >= len(self._assigned):
                raise IndexError(
                    f"device_id {number} is out of range: {len(self._assigned)} devices are "
                    f"assigned ({self._assigned})"
                )
            return self._assigned[number]
        if self._control:
            return self.card_of_name(self._control.split(",")[number])
        return number

    def card_of_visible(self, number: int) -> int:
        """The driver's number for a device as torch counts; errors as `card_of_logical`."""
        if not self._control:
            return number
        names = self._control.split(",")
        if number >= len(names):
            raise IndexError(f"visible device {number} is out of range: {self._control}")
        return self.card_of_name(names[number])

    def visible_of_logical(self, number: int) -> int:
        """The number by which torch knows a device that vLLM knows by `number`.

        Raises:
            RuntimeError: torch does not see it; besides, as `card_of_logical`.
        """
        card = self.card_of_logical(number)
        if not self._control:
            return card
        cards = [self.card_of_name(name) for name in self._control.split(",")]
        if card not in cards:
            raise RuntimeError(f"device {card} is not visible among {self._control}")
        return cards.index(card)

    def _named(self, name: str) -> int:
        if name.isdecimal():
            return int(name)
        found = _UUID.match(name)
        index = int(found[2], 16) - 1 if found else -1
        if 0 <= index < len(self._devices) and uuid_of(self._devices, index) == name:
            return index
        raise DriverError("Not Found")

    def _slices(self, card: int) -> list[int]:
        return [i for i, device in enumerate(self._devices) if device.slice_of == card]
