# SPDX-License-Identifier: Apache-2.0
"""A CUDA device through the driver alone, for processes that hold memory and do nothing else.

No torch: such a process starts in no time, its context is the smallest there is, and what it
allocates (`cuMemAlloc`, no managed memory) is exactly what the device has less.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final, final

from startup_plan.harness.stubs.units import MIB, SAFETY_BUFFER
from startup_plan.harness.world.worker_steps import DeviceMemoryError

_LIBRARIES: Final = ("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "libcuda.so")
_OUT_OF_MEMORY: Final = 2
_MAJOR: Final = 75
_MINOR: Final = 76
_LONGEST_NAME: Final = 256
_USUAL_GRANULE: Final = 2 * MIB
_LARGEST_GRANULE: Final = 64 * MIB


class NoDriverError(RuntimeError):
    """There is no CUDA driver, or it knows no device; the message says which."""


def load() -> Any:
    """The driver's library.

    Raises:
        NoDriverError: there is none.
    """
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoDriverError(f"no CUDA driver: none of {', '.join(map(os.path.basename, _LIBRARIES))}")


@final
class DriverMemory:
    """The memory of one CUDA device as a process without torch sees it.

    Args:
        index: the device, as the driver counts.
        library: the driver; the real one unless given.

    Raises:
        NoDriverError: there is no driver or no such device.
    """

    versions = ("", None)

    def __init__(self, index: int, library: Any = None) -> None:
        """Find the device; the context comes with `open`."""
        self._library = load() if library is None else library
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self.devices = count.value
        if index >= self.devices:
            raise NoDriverError(f"the driver knows {self.devices} devices, and no device {index}")
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), index)
        name = ctypes.create_string_buffer(_LONGEST_NAME)
        self._call("cuDeviceGetName", name, _LONGEST_NAME, self._device)
        self.name = name.value.decode(errors="replace")
        self.capability = (self._attribute(_MAJOR), self._attribute(_MINOR))
        self.granule = _USUAL_GRANULE
        self.buffer = SAFETY_BUFFER
        self._held: dict[str, Any] = {}

    def open(self) -> None:
        """Create the context, and find out in which steps the device gives memory."""
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        # The first use may load what the driver needs for it, and take memory for that.
        for _ in range(2):
            before, _ = self.read()
            self.take("probe", 1)
            after, _ = self.read()
            self.give("probe")
        if 0 < before - after <= _LARGEST_GRANULE:
            self.granule = before - after

    def read(self) -> tuple[int, int]:
        """Free and total memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def take(self, label: str, size: int) -> None:
        """Allocate, write once, and keep.

        Raises:
            DeviceMemoryError: there is not so much.
        """
        if not size:
            return
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self._held[label] = pointer
        self._call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        self._call("cuCtxSynchronize")

    def give(self, label: str) -> None:
        """Give back to the device."""
        pointer = self._held.pop(label, None)
        if pointer is not None:
            self._call("cuMemFree_v2", pointer)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status == _OUT_OF_MEMORY:
            raise DeviceMemoryError(f"{function}: CUDA_ERROR_OUT_OF_MEMORY")
        if status:
            raise NoDriverError(f"{function} answers with error {status}")
