# SPDX-License-Identifier: Apache-2.0
"""What the processes on a CUDA device do, as far as it can be seen without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import pytest

from startup_plan.harness.cards.driver import DriverMemory, NoDriverError
from startup_plan.harness.cards.inside import Holder
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.world.worker_steps import DeviceMemoryError

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

STEP: Final = 2 * MIB


@final
class FakeDriver:
    """A CUDA driver with one device that gives memory in steps of 2 MiB.

    Args:
        broken: a function that fails.
    """

    def __init__(self, broken: str = "") -> None:
        """Nothing is allocated."""
        self.calls: list[str] = []
        self._broken = broken
        self._held: dict[int, int] = {}
        self._next = 1

    def __getattr__(self, name: str) -> Any:
        """Any function of the driver; those that fill in nothing succeed."""
        answers: dict[str, Callable[..., int | None]] = {
            "cuDeviceGetCount": self._count,
            "cuDeviceGetName": self._name,
            "cuDeviceGetAttribute": self._attribute,
            "cuMemGetInfo_v2": self._info,
            "cuMemAlloc_v2": self._allocate,
            "cuMemFree_v2": self._free,
        }

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == self._broken:
                return 999
            return answers[name](*arguments) or 0 if name in answers else 0

        return call

    @property
    def free(self) -> int:
        """Free bytes."""
        return 8 * GIB - sum(self._held.values())

    def _count(self, count: Any) -> None:
        count._obj.value = 1

    def _name(self, name: Any, _length: int, _device: Any) -> None:
        name.value = b"Fake"

    def _attribute(self, value: Any, number: int, _device: Any) -> None:
        value._obj.value = {75: 9, 76: 0}[number]

    def _info(self, free: Any, total: Any) -> None:
        free._obj.value, total._obj.value = self.free, 8 * GIB

    def _allocate(self, pointer: Any, size: ctypes.c_size_t) -> int:
        taken = -(-size.value // STEP) * STEP
        if taken > self.free:
            return 2
        pointer._obj.value = self._next
        self._held[self._next] = taken
        self._next += 1
        return 0

    def _free(self, pointer: ctypes.c_uint64) -> None:
        del self._held[pointer.value]


def opened(driver: FakeDriver) -> DriverMemory:
    """The device of a driver, with a context."""
    memory = DriverMemory(0, driver)
    memory.open()
    return memory


def test_a_device_is_described_by_its_driver() -> None:
    """Name, capability, memory and the step of allocation come from the driver."""
    memory = opened(FakeDriver())

    assert (memory.name, memory.capability, memory.granule) == ("Fake", (9, 0), STEP)
    assert memory.read() == (8 * GIB, 8 * GIB)


def test_a_cotenant_holds_to_the_granule() -> None:
    """A co-tenant grows and shrinks by single granules, and lets go of everything."""
    driver = FakeDriver()
    holder, seen = Holder(opened(driver), last=2 * GIB), []
    for size in (GIB, GIB + STEP, GIB - STEP, 0):
        holder.hold(size)
        seen.append(8 * GIB - driver.free)

    assert seen == [GIB, GIB + STEP, GIB - STEP, 0]


def test_a_cotenant_leaves_the_last_bytes() -> None:
    """Two GiB of a card stay free, whatever a co-tenant is told; nothing is taken then."""
    driver = FakeDriver()
    holder = Holder(opened(driver), last=2 * GIB)
    holder.hold(6 * GIB)

    with pytest.raises(DeviceMemoryError, match="would leave less than"):
        holder.hold(6 * GIB + STEP)
    assert driver.free == 2 * GIB


def test_memory_is_plain_and_written() -> None:
    """What is held is allocated plainly and written once; no managed memory, no settings."""
    driver = FakeDriver()
    opened(driver).take("held", STEP)
    used = {name for name in driver.calls if name.startswith("cuMem")}

    assert used == {"cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemsetD8_v2"}


def test_a_driver_that_refuses_is_told_apart_from_one_that_fails() -> None:
    """No memory is an answer; any other error of the driver ends the process with its name."""
    with pytest.raises(DeviceMemoryError, match="OUT_OF_MEMORY"):
        opened(FakeDriver()).take("held", 9 * GIB)
    with pytest.raises(NoDriverError, match="cuDevicePrimaryCtxRetain answers with error 999"):
        opened(FakeDriver("cuDevicePrimaryCtxRetain"))
    with pytest.raises(NoDriverError, match="no device 1"):
        DriverMemory(1, FakeDriver())


@pytest.mark.needs("torch")
def test_an_engine_boots_on_the_real_torch(tmp_path: Path) -> None:
    """Beside a stubbed torch the real one works on: measure, apply with graphs, and a refusal."""
    script = Path(__file__).with_name("card_on_cpu.py")
    package = Path(__file__).parents[3] / "src"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.fspath(package)},
    )
    assert done.returncode == 0, done.stderr
    first, second, refused = json.loads(done.stdout)

    assert (first["stage"], second["stage"], second["left"]) == ("served", "served", second["kv"])
    assert first["suggestion"] < second["applied"] <= first["kv"]
    assert (first["written"], second["written"]) == (first["kv"], second["kv"])
    assert (first["estimate"], first["graphs"], first["headroom"]) == (16 * MIB, 16 * MIB, 32 * MIB)
    assert refused["shortage"].startswith("torch.OutOfMemoryError: tried to allocate")
