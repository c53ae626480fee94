# SPDX-License-Identifier: Apache-2.0
"""What runs inside the processes on a card: an engine that boots, a co-tenant that holds memory.

Both read one JSON object a line and answer each with one line. They end when their input ends, and
the kernel ends them when their parent dies.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

from startup_plan.harness.stubs import modules as stub_modules
from startup_plan.harness.stubs.state import Device, Runtime, Simulation, activate
from startup_plan.harness.world import worker_steps
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.worker_steps import DeviceMemoryError
from startup_plan.support.channel import Channel, die_with_parent

from .cuda import CudaMemory
from .driver import DriverMemory
from .host import TOTALS, HostMemory
from .order import Order
from .subject_plan import SubjectPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from startup_plan.harness.world.subject import Subject

    from .memory import CardMemory

_LONGEST_LINE: Final = 65536
_POLL_SECONDS: Final = 0.01


def _parser(what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--backend", choices=("cuda", "host"), required=True)
    parser.add_argument("--parent", type=int, required=True, help="process to die with")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the made-up devices of a host lie")
    return parser


def engine(arguments: list[str]) -> None:
    """One boot: the first line is an order, each further one a stage to advance to."""
    parser = _parser("One boot of a small engine on a card.")
    parser.add_argument("--granule", type=int, default=1, help="of a CUDA device, in bytes")
    parser.add_argument("subject", nargs="?", default="reference", help="as load_subject takes it")
    parser.add_argument("--nursery", action="store_true", help="fork engines when asked")
    given = parser.parse_args(arguments)
    die_with_parent(given.parent)
    if given.nursery:
        nursery(given.backend)
        return
    channel = Channel()
    memory: CardMemory
    if given.backend == "cuda":
        memory = CudaMemory(given.device, given.granule)
    else:
        memory = HostMemory(given.folder / str(given.device), TOTALS[given.device])
    subject = load_subject(given.subject)
    lines = iter(channel)
    order = Order(**next(lines))
    result = order.new_result()
    torch, cuda = memory.versions
    runtime = Runtime(torch=torch)
    runtime.cuda = cuda
    simulation = Simulation([], runtime)
    plan = SubjectPlan(
        order, subject, simulation, lambda: stubbed(subject, simulation, memory, order.device)
    )
    life = worker_steps.boot(order, memory, plan, result)
    for line in lines:
        while result.stage != line["advance"] and next(life, None) is not None:
            pass
        channel.answer(result.to_values())


def nursery(backend: str) -> None:
    """Fork engines, kill them, and wait for them, as the other end asks.

    Only torch is imported here and nothing is asked of it, so that each engine makes a context of
    its own, as a process with an interpreter of its own would.
    """
    control = socket.socket(fileno=os.dup(0))
    os.dup2(2, 1)
    if backend == "cuda":
        importlib.import_module("torch")
    _answer(control, {"ready": True})
    while True:
        line, descriptors, _, _ = socket.recv_fds(control, _LONGEST_LINE, 1)
        if not line:
            return
        said = json.loads(line)
        if "fork" in said:
            pid = os.fork()
            if pid == 0:
                _be_engine(control, descriptors[0], said["fork"])
            os.close(descriptors[0])
            _answer(control, {"pid": pid})
        elif "kill" in said:
            os.kill(said["kill"], signal.SIGKILL)
            _answer(control, {})
        else:
            _answer(control, {"over": _has_ended(said["wait"], said["seconds"])})


def _be_engine(control: socket.socket, line: int, arguments: list[str]) -> NoReturn:
    status, parent = 1, os.getppid()
    try:
        control.close()
        for descriptor in (0, 1):
            os.dup2(line, descriptor)
        os.close(line)
        engine(["--parent", str(parent), *arguments])
        status = 0
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        sys.stderr.flush()
        os._exit(status)


def _has_ended(pid: int, seconds: float) -> bool:
    latest = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > latest:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _answer(control: socket.socket, said: object) -> None:
    control.sendall(json.dumps(said).encode() + b"\n")


@contextlib.contextmanager
def stubbed(
    subject: Subject, simulation: Simulation, memory: CardMemory, device: int
) -> Iterator[None]:
    """Simulated modules in the place of vLLM and torch, with the figures of the card."""
    free, total = memory.read()
    card = Device(memory.name, total, memory.capability, context=total - free)
    simulation.devices[:] = [card] * (device + 1)
    with subject.out_of_the_way(), stub_modules.installed():
        activate(simulation)
        try:
            yield
        finally:
            activate(None)


@final
class Holder:
    """Memory held in pieces, so that it can grow and shrink to the byte.

    Args:
        memory: where.
        last: bytes that it never takes of a device.
    """

    def __init__(self, memory: DriverMemory | HostMemory, last: int) -> None:
        """Nothing is held."""
        self._memory = memory
        self._last = last
        self._pieces: list[tuple[str, int]] = []
        self._made = 0

    @property
    def held(self) -> int:
        """Bytes held."""
        return sum(size for _, size in self._pieces)

    def hold(self, size: int) -> None:
        """Hold exactly `size` bytes.

        Raises:
            DeviceMemoryError: the device has not so much, or no more than must be left to it.
        """
        while self.held > size:
            label, _ = self._pieces.pop()
            self._memory.give(label)
        more = size - self.held
        free, _ = self._memory.read()
        if more and free - more < self._last:
            raise DeviceMemoryError(
                f"{more} bytes more would leave less than {self._last} of {free} free"
            )
        if more:
            self._made += 1
            label = f"piece-{self._made}"
            self._memory.take(label, more)
            self._pieces.append((label, more))


def cotenant(arguments: list[str]) -> None:
    """Hold as many bytes as each line says, and answer when that is so."""
    parser = _parser("A co-tenant that holds memory on a card.")
    parser.add_argument("--last", type=int, required=True, help="bytes that it never takes")
    given = parser.parse_args(arguments)
    die_with_parent(given.parent)
    channel = Channel()
    memory: DriverMemory | HostMemory
    if given.backend == "cuda":
        memory = DriverMemory(given.device)
        devices = memory.devices
    else:
        memory = HostMemory(given.folder / str(given.device), TOTALS[given.device])
        devices = len(TOTALS)
    memory.open()
    holder = Holder(memory, given.last)
    channel.answer(_told(memory, holder) | {"devices": devices, "name": memory.name})
    for line in channel:
        try:
            if "hold" in line:
                holder.hold(line["hold"])
        except DeviceMemoryError as error:
            channel.answer({"refused": str(error)})
        else:
            channel.answer(_told(memory, holder))


def _told(memory: DriverMemory | HostMemory, holder: Holder) -> dict[str, Any]:
    free, total = memory.read()
    return {
        "held": holder.held,
        "free": free,
        "total": total,
        "granule": memory.granule,
        "buffer": memory.buffer,
    }
