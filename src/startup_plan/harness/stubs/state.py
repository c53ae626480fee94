# SPDX-License-Identifier: Apache-2.0
"""The state that simulated vLLM and torch modules answer from: one active simulation at a time.

A subject binds names such as `current_platform` when it is imported and calls them later, so the
stub modules hold no state of their own; they ask `active()` each time.
"""

from __future__ import annotations

from typing import final

from .units import GIB, MIB


class SimulatedQueryError(RuntimeError):
    """A query of the device, the runtime or the configuration that a test made fail."""


@final
class Device:
    """A simulated accelerator. All sizes are bytes.

    Args:
        name: product name, as the platform reports it.
        total: memory of the device.
        capability: compute capability (major, minor), or None on a backend without one.
        context: what the driver itself holds while any process uses the device.
    """

    __slots__ = ("capability", "context", "name", "tenants", "total")

    def __init__(
        self,
        name: str = "Simulated H200",
        total: int = 80 * GIB,
        capability: tuple[int, int] | None = (9, 0),
        context: int = 512 * MIB,
    ) -> None:
        """A device without co-tenants."""
        self.name = name
        self.total = total
        self.capability = capability
        self.context = context
        self.tenants: dict[str, int] = {}

    @property
    def free(self) -> int:
        """What a new process would find free."""
        return max(0, self.total - self.context - sum(self.tenants.values()))


@final
class Runtime:
    """Versions of the software under a simulated worker.

    Args:
        vllm: version of vLLM.
        torch: version of torch.
        cuda: `torch.version.cuda`, None where torch was built for another backend.
        hip: `torch.version.hip`, likewise.
        xpu: `torch.version.xpu`, likewise.
        npu: version of the `torch_npu` package, None where it is not installed.
        libraries: other installed distributions, lower case with underscores, and their versions.
    """

    __slots__ = ("cuda", "hip", "libraries", "npu", "torch", "vllm", "xpu")

    def __init__(
        self,
        vllm: str = "0.33.0",
        torch: str = "2.13.0",
        cuda: str | None = "13.0",
        hip: str | None = None,
        xpu: str | None = None,
        npu: str | None = None,
        libraries: dict[str, str] | None = None,
    ) -> None:
        """A CUDA build unless told otherwise."""
        self.vllm = vllm
        self.torch = torch
        self.cuda = cuda
        self.hip = hip
        self.xpu = xpu
        self.npu = npu
        self.libraries = {} if libraries is None else libraries

    @property
    def backend(self) -> str:
        """The torch device type of this build."""
        if self.npu is not None:
            return "npu"
        return "xpu" if self.xpu is not None else "cuda"

    def versions(self) -> tuple[str | None, ...]:
        """Everything that a key must tell apart (KEY-05, KEY-06)."""
        return (self.vllm, self.torch, self.cuda, self.hip, self.xpu, self.npu)


@final
class Simulation:
    """What the stub modules answer from during a boot.

    Args:
        devices: the devices of this host.
        runtime: the installed versions.

    Attributes:
        current_device: index of the device that the running process has chosen.
        broken: names of queries that raise `SimulatedQueryError`.
        queries: device queries made so far, as (name, device index).
        log: lines that the subject logged, as (level, message).
    """

    __slots__ = ("broken", "current_device", "devices", "log", "queries", "runtime")

    def __init__(self, devices: list[Device], runtime: Runtime) -> None:
        """A simulation in which nothing is broken and nothing has happened."""
        self.devices = devices
        self.runtime = runtime
        self.current_device = 0
        self.broken: set[str] = set()
        self.queries: list[tuple[str, int]] = []
        self.log: list[tuple[str, str]] = []

    def asked(self, query: str, index: int | None = None) -> Device:
        """Note a device query and answer with the device, or fail as the test wants."""
        number = self.current_device if index is None else int(index)
        self.queries.append((query, number))
        if query in self.broken:
            raise SimulatedQueryError(f"simulated: the query {query} fails")
        if not 0 <= number < len(self.devices):
            raise SimulatedQueryError(f"simulated: there is no device {number}")
        return self.devices[number]


_active: Simulation | None = None


def activate(simulation: Simulation | None) -> None:
    """Make `simulation` the one that the stub modules answer from."""
    global _active  # noqa: PLW0603  # stub modules are process-wide, as the modules they stand for
    _active = simulation


def active() -> Simulation:
    """The simulation in force.

    Raises:
        RuntimeError: a stub was used outside any simulated boot.
    """
    if _active is None:
        raise RuntimeError("a simulated vLLM was asked outside a simulated boot")
    return _active
