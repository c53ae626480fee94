# SPDX-License-Identifier: Apache-2.0
"""The memory of a CUDA device through torch: real contexts, handles, graphs and refusals.

Nothing here is managed memory, and no setting of the card is touched.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, final

from startup_plan.harness.stubs.units import MIB, SAFETY_BUFFER
from startup_plan.harness.world.worker_steps import DeviceMemoryError

_CHUNK: Final = 32 * MIB
_WORD: Final = 8


@final
class CudaMemory:
    """The memory of one CUDA device as this process sees it.

    Args:
        index: the device, as torch counts.
        granule: the step in which the device gives memory, in bytes; a process without torch has
            found it out.
        torch: the module; imported here unless given.
    """

    def __init__(self, index: int, granule: int, torch: Any = None) -> None:
        """Choose the device; the context comes with `open`."""
        # Imported here: it takes seconds, and only engines on a card have it.
        torch = importlib.import_module("torch") if torch is None else torch
        self._torch = torch
        self._device = torch.device("cuda", index)
        self._held: dict[str, Any] = {}
        self.granule = granule
        self.buffer = SAFETY_BUFFER
        found: Any = torch.cuda.get_device_properties(self._device)
        self.name = str(found.name)
        self.capability = (int(found.major), int(found.minor))
        self.versions = (str(torch.__version__), torch.version.cuda)

    def open(self) -> None:
        """Create the context."""
        self._torch.cuda.set_device(self._device)
        self._torch.zeros(1, device=self._device)
        self.read()

    def read(self) -> tuple[int, int]:
        """Free and total memory, nothing cached by torch."""
        self._torch.cuda.synchronize(self._device)
        self._torch.cuda.empty_cache()
        free, total = self._torch.cuda.mem_get_info(self._device)
        return int(free), int(total)

    def prepare(self) -> None:
        """Create library handles and workspaces, as a first matrix product does."""
        square = self._torch.ones(512, 512, dtype=self._torch.bfloat16, device=self._device)
        (square @ square).sum().item()

    def take(self, label: str, size: int) -> None:
        """Allocate and keep."""
        try:
            self._held[label] = self._bytes(size)
        except self._torch.OutOfMemoryError as error:
            raise _refused(error) from None

    def give(self, label: str) -> None:
        """Give back to the device."""
        held = self._held.pop(label, None)
        if isinstance(held, tuple):
            held[0].reset()
        del held
        self.read()

    def forward(self, size: int) -> int:
        """One pass with `size` bytes of activations; the transient peak."""
        cuda = self._torch.cuda
        cuda.reset_peak_memory_stats(self._device)
        try:
            activations = self._bytes(size)
            activations.fill_(1)
            self.prepare()
        except self._torch.OutOfMemoryError as error:
            raise _refused(error) from None
        del activations
        cuda.synchronize(self._device)
        peak = cuda.max_memory_allocated(self._device) - cuda.memory_allocated(self._device)
        return int(peak)

    def capture(self, label: str, size: int) -> int:
        """Capture a graph whose pool holds `size` bytes; what the device has less after it."""
        torch = self._torch
        before, _ = self.read()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                inside = self._bytes(size)
                inside.fill_(1)
            graph.replay()
        except RuntimeError as error:
            # A refusal spoils the capture, and torch tells of that instead.
            causes = (error, error.__context__, error.__cause__)
            for cause in causes:
                if isinstance(cause, torch.OutOfMemoryError):
                    raise _refused(cause) from None
            raise
        self._held[label] = (graph, inside)
        after, _ = self.read()
        return before - after

    def write(self, label: str) -> int:
        """Write everything, then read everything back."""
        held = self._held.get(label)
        if held is None:
            return 0
        whole = len(held) // _WORD * _WORD
        chunks = held[:whole].view(self._torch.int64).split(_CHUNK // _WORD)
        tail = held[whole:]
        for number, chunk in enumerate(chunks, 1):
            chunk.fill_(number)
        tail.fill_(1)
        right = sum(
            len(chunk) * _WORD
            for number, chunk in enumerate(chunks, 1)
            if bool((chunk == number).all().item())
        )
        return right + (len(tail) if bool((tail == 1).all().item()) else 0)

    def _bytes(self, size: int) -> Any:
        return self._torch.empty(size, dtype=self._torch.uint8, device=self._device)


def _refused(error: BaseException) -> DeviceMemoryError:
    """What torch said, with its name, so that nobody takes a simulated refusal for it."""
    return DeviceMemoryError(f"torch.{type(error).__name__}: {str(error).strip()[:200]}")
