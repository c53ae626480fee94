# SPDX-License-Identifier: Apache-2.0
"""With this folder on its path, a Python finds a CUDA driver with one device, and a torch for it.

Both are played: see `played_card.py` and `torch/__init__.py`.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, final

from startup_plan.harness.cards import driver
from startup_plan.harness.contract import capabilities
from startup_plan.harness.stubs.units import MIB

_OUT_OF_MEMORY: Final = 2

card: Any = importlib.import_module("played_card")


@final
class Driver:
    """The functions of `libcuda` that co-tenants call."""

    def __getattr__(self, name: str) -> Any:
        """A function; one that has nothing to answer succeeds."""
        played = getattr(type(self), f"play_{name}", None)
        return played or (lambda *_: 0)

    @staticmethod
    def play_cuDeviceGetCount(count: Any) -> int:  # noqa: N802  # the driver's names
        """One device."""
        count._obj.value = 1
        return 0

    @staticmethod
    def play_cuDeviceGetName(name: Any, _length: int, _device: Any) -> int:  # noqa: N802
        """Its name."""
        name.value = b"Played GPU"
        return 0

    @staticmethod
    def play_cuDeviceGetAttribute(value: Any, _number: int, _device: Any) -> int:  # noqa: N802
        """Its capability, 9.9."""
        value._obj.value = 9
        return 0

    @staticmethod
    def play_cuDevicePrimaryCtxRetain(_context: Any, _device: Any) -> int:  # noqa: N802
        """A context, which takes memory."""
        card.take(300 * MIB)
        return 0

    @staticmethod
    def play_cuMemGetInfo_v2(free: Any, total: Any) -> int:  # noqa: N802
        """Free and total bytes."""
        free._obj.value, total._obj.value = card.info()
        return 0

    @staticmethod
    def play_cuMemAlloc_v2(pointer: Any, size: Any) -> int:  # noqa: N802
        """An allocation, or a refusal."""
        number = card.take(size.value)
        pointer._obj.value = number or 0
        return 0 if number else _OUT_OF_MEMORY

    @staticmethod
    def play_cuMemFree_v2(pointer: Any) -> int:  # noqa: N802
        """Free it."""
        card.give(pointer.value)
        return 0


_driver: Any = driver
_driver.load = Driver
_probes: Any = capabilities._PROBES
_probes["gpu"] = lambda: (True, "a played card")
