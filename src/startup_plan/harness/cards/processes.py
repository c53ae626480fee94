# SPDX-License-Identifier: Apache-2.0
"""Cards on which every engine and every co-tenant is a real process.

Every process is known by its id, is ended and waited for when the card is closed, and dies with
this one whatever happens.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, final

from startup_plan.harness.stubs.units import MIB
from startup_plan.harness.world.outcome import BootResult
from startup_plan.support.line_child import Child, Nursery, spawn

from . import host as card_host
from .card import LAST, Card, CardBusyError

if TYPE_CHECKING:
    from .order import Order
    from .scenarios import Scenario

Backend = Literal["cuda", "host"]

_SMI_SECONDS: Final = 10.0
_SETTLE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05
_STEADY: Final = 3


@final
class ProcessBoot:
    """An engine that boots in a process of its own."""

    def __init__(self, child: Child, order: Order) -> None:
        """Hand over the order."""
        self.result = order.new_result()
        self._child = child
        child.tell(dataclasses.asdict(order))

    def advance(self, stage: str) -> BootResult:
        """Go on up to `stage`, or as far as it comes."""
        self.result = BootResult.from_values(self._child.ask({"advance": stage}))
        return self.result

    def end(self) -> None:
        """End it."""
        self._child.end()

    def kill(self) -> None:
        """Kill it."""
        self._child.kill()


@final
class ProcessTenant:
    """A co-tenant in a process of its own."""

    def __init__(self, child: Child) -> None:
        """Wait until it is there; it holds nothing.

        Raises:
            ChildError: it has no such card.
        """
        self._child = child
        self.held = 0
        self.greeting = child.hear()

    def hold(self, size: int) -> None:
        """Hold exactly `size` bytes.

        Raises:
            CardBusyError: there is not so much.
        """
        self.look({"hold": size})

    def look(self, said: dict[str, int]) -> dict[str, Any]:
        """Ask what it holds and what it sees."""
        answer: dict[str, Any] = self._child.ask(said)
        if "refused" in answer:
            raise CardBusyError(answer["refused"])
        self.held = int(answer["held"])
        return answer

    def end(self) -> None:
        """Let go and end."""
        self.held = 0
        self._child.end()


class ProcessCard(Card):
    """A card whose engines and co-tenants are processes; enter it, and leave it to end them all.

    Args:
        root: an empty folder.
        subject: the implementation under test, as `load_subject` takes it.
        scripts: the folder of `engine.py` and `cotenant.py`.
        nursery: forks engines; without one, each starts an interpreter.
    """

    backend: ClassVar[Backend]

    def __init__(
        self, root: Path | str, subject: str, scripts: Path, nursery: Nursery | None = None
    ) -> None:
        """Nothing is started yet."""
        super().__init__(root)
        self._nursery = nursery
        self._subject = subject
        self._scripts = scripts
        self._errors = Path(self._root, "errors")
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        """Start somebody who looks at the card from outside.

        Raises:
            ChildError: there is no such card.
        """
        self._watchers: dict[int, ProcessTenant] = {}
        try:
            self._watchers[0] = self._tenant(0)
        except BaseException:
            self.close()
            raise
        found = self._watchers[0].greeting
        self.name = str(found["name"])
        self.total, self.granule = int(found["total"]), int(found["granule"])
        self.buffer, self.devices = int(found["buffer"]), int(found["devices"])
        return self

    def __exit__(self, *_raised: object) -> None:
        """End every process."""
        self.close()

    def close(self) -> None:
        """Kill and reap every process that was started here, by its id."""
        with contextlib.ExitStack() as all_of_them:
            for child in self._children:
                all_of_them.callback(child.kill)
            self._children.clear()

    @property
    def pids(self) -> list[int]:
        """Processes that were started here, whether they live or not."""
        return [child.pid for child in self._children]

    def free(self, device: int = 0) -> int:
        """Free bytes as a process sees them that holds nothing."""
        if device not in self._watchers:
            self._watchers[device] = self._tenant(device)
        return int(self._watchers[device].look({})["free"])

    def used(self, device: int = 0) -> int:
        """Bytes in use."""
        return self.total - self.free(device)

    def start(self, order: Order, until: str) -> ProcessBoot:
        """Start an engine."""
        arguments = [*self._where(order.device), "--granule", str(self.granule), self._subject]
        if self._nursery is None:
            child = spawn([str(self._scripts / "engine.py")], arguments, self._errors)
        else:
            child = self._nursery.fork(arguments)
        self._children.append(child)
        boot = ProcessBoot(child, order)
        boot.advance(until)
        return boot

    def _tenant(self, device: int) -> ProcessTenant:
        arguments = [*self._where(device), "--last", str(self.last)]
        child = spawn([str(self._scripts / "cotenant.py")], arguments, self._errors)
        self._children.append(child)
        return ProcessTenant(child)

    def settle(self) -> None:
        """Wait until the free memory stands still."""
        latest, seen = time.monotonic() + _SETTLE_SECONDS, [self.free()]
        while len(seen) < _STEADY and time.monotonic() < latest:
            time.sleep(_POLL_SECONDS)
            free = self.free()
            seen = [*seen, free] if free == seen[-1] else [free]

    def _where(self, device: int) -> list[str]:
        return ["--backend", self.backend, "--device", str(device)]


@final
class HostCard(ProcessCard):
    """Made-up devices in the memory of the host, with real processes on them."""

    kind = "host"
    backend = "host"
    last = card_host.TOTALS[0] // 32

    def __init__(
        self, root: Path | str, subject: str, scripts: Path, nursery: Nursery | None = None
    ) -> None:
        """Make the folders in which the devices lie."""
        super().__init__(root, subject, scripts, nursery)
        self._folder = Path(self._root, "devices")
        for device in range(len(card_host.TOTALS)):
            (self._folder / str(device)).mkdir(parents=True)

    def close(self) -> None:
        """End every process, and remove the devices."""
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def used(self, device: int = 0) -> int:
        """Bytes in use, counted from the files that living processes hold."""
        return card_host.used(self._folder / str(device))

    def free(self, device: int = 0) -> int:
        """Bytes not in use."""
        return card_host.TOTALS[device] - self.used(device)

    def settle(self) -> None:
        """Nothing to wait for: who counts removes what the dead have left."""

    def _where(self, device: int) -> list[str]:
        return [*super()._where(device), "--folder", os.fspath(self._folder)]


@final
class CudaCard(ProcessCard):
    """A CUDA device."""

    kind = "cuda"
    backend = "cuda"
    last = LAST

    def used(self, device: int = 0) -> int:
        """Bytes in use in the words of `nvidia-smi`, or of the driver where there is none."""
        said = nvidia_smi(device)
        return super().used(device) if said is None else said


def nvidia_smi(device: int) -> int | None:
    """What `nvidia-smi` says is in use on a device, in bytes; None where it does not say."""
    program = shutil.which("nvidia-smi")
    if program is None or "CUDA_VISIBLE_DEVICES" in os.environ:
        # It counts all devices of the host, whatever this process may see.
        return None
    command = [program, "-i", str(device), "--query-gpu=memory.used"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603  # a query; it changes nothing
            [*command, "--format=csv,noheader,nounits"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_SMI_SECONDS,
        )
        return int(done.stdout.split()[0]) * MIB
    return None


class RunScenario(Protocol):
    """Runs a scenario on a card that is opened for it."""

    def __call__(self, name: str, scenario: Scenario, subject: str = "") -> ProcessCard:
        """Run it on the subject under test, or on another; the card, closed again."""
