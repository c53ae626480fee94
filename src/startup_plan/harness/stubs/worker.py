# SPDX-License-Identifier: Apache-2.0
"""The worker that subjects see, with the attributes and types of vLLM's `gpu_worker.Worker`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

from .attributes import lacking
from .state import active


class DeviceCapability(NamedTuple):
    """Compute capability of a device."""

    major: int
    minor: int

    def as_version_str(self) -> str:
        """The form in which people write it."""
        return f"{self.major}.{self.minor}"

    def to_int(self) -> int:
        """The form in which kernels compare it."""
        return self.major * 10 + self.minor


@final
class StubDevice:
    """`torch.device` as far as a subject looks at it."""

    __slots__ = ("index", "type")

    def __init__(self, type: str, index: int | None = None) -> None:  # noqa: A002  # torch's name
        """Accept both spellings: ("cuda", 1) and ("cuda:1")."""
        kind, _, number = str(type).partition(":")
        self.type = kind
        self.index = int(number) if number else index

    def __str__(self) -> str:
        """The short spelling."""
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        """Equal by type and index."""
        return isinstance(other, StubDevice) and str(self) == str(other)

    def __hash__(self) -> int:
        """As equality."""
        return hash(str(self))


@dataclass
class MemorySnapshot:
    """What a worker reads of its device when it starts. Sizes in bytes, time in seconds."""

    torch_peak: int = 0
    torch_allocated: int = 0
    free_memory: int = 0
    total_memory: int = 0
    cuda_memory: int = 0
    torch_memory: int = 0
    non_torch_memory: int = 0
    timestamp: float = 0.0
    device: Any = None
    auto_measure: bool = True

    def __post_init__(self) -> None:
        """Read the device, unless figures were given."""
        own = self.device
        if own is None:
            simulation = active()
            own = StubDevice(simulation.runtime.backend.device_type, simulation.current_device)
        self.device_ = own
        if self.auto_measure:
            self.measure()

    def measure(self) -> None:
        """Read the device as it is now; what this process has taken is counted as torch's."""
        index: Any = getattr(self.device_, "index", self.device_)
        self.free_memory, self.total_memory = active().memory(index)
        self.cuda_memory = self.total_memory - self.free_memory
        self.torch_memory = self.torch_allocated = self.torch_peak = active().held
        self.non_torch_memory = self.cuda_memory - self.torch_memory


@final
class Footprint:
    """What one rank takes besides its KV cache, in bytes.

    Args:
        weights: loaded weights; the worker knows this figure after loading.
        persistent: workspaces, communication buffers, draft-model buffers, CUDA context.
        activations: transient peak of a forward pass.
        graphs: CUDA graphs.
    """

    __slots__ = ("activations", "graphs", "persistent", "weights")

    def __init__(self, weights: int, persistent: int, activations: int, graphs: int) -> None:
        """Hold the four parts."""
        self.weights = weights
        self.persistent = persistent
        self.activations = activations
        self.graphs = graphs

    @property
    def total(self) -> int:
        """Everything besides the KV cache, at the worst moment."""
        return self.weights + self.persistent + self.activations + self.graphs


@final
class ModelRunner:
    """A model runner that records which passes the worker asked for.

    Args:
        footprint: what this rank takes, in bytes.
        calls: list to which the name of each pass is appended.
    """

    __slots__ = ("_footprint", "calls", "model_memory_usage")

    def __init__(self, footprint: Footprint, calls: list[str]) -> None:
        """A runner whose weights are loaded."""
        self._footprint = footprint
        self.calls = calls
        self.model_memory_usage = footprint.weights

    # Where the weights are hidden from a subject it is deleted.
    __getattr__ = lacking("ModelRunner", except_for={"model_memory_usage"})

    def profile_run(self) -> int:
        """The forward pass that compiles the model; returns its transient peak in bytes."""
        self.calls.append("profile_run")
        return self._footprint.activations

    def profile_cudagraph_memory(self) -> int:
        """The estimate of CUDA-graph memory in bytes; runs collectives in a group."""
        self.calls.append("profile_cudagraph_memory")
        return self._footprint.graphs

    def capture_model(self) -> int:
        """Capture the CUDA graphs; returns the bytes that they took."""
        self.calls.append("capture_model")
        return self._footprint.graphs


@final
class SimulatedWorker:
    """A worker at the moment after it has loaded its weights."""

    def __init__(
        self,
        config: Any,
        *,
        rank: int,
        local_rank: int,
        device: StubDevice,
        snapshot: MemorySnapshot,
        requested_memory: int,
        model_runner: ModelRunner,
    ) -> None:
        """Expose the sections of the configuration under the names that vLLM's worker gives them.

        Args:
            config: the engine's `VllmConfig`.
            rank: rank in the group.
            local_rank: rank on this host.
            device: the worker's own device.
            snapshot: reading of that device before the weights were loaded.
            requested_memory: the budget in bytes.
            model_runner: the runner, with weights loaded.
        """
        self.vllm_config = config
        self.model_config = config.model_config
        self.cache_config = config.cache_config
        self.lora_config = config.lora_config
        self.load_config = config.load_config
        self.parallel_config = config.parallel_config
        self.scheduler_config = config.scheduler_config
        self.device_config = config.device_config
        self.speculative_config = config.speculative_config
        self.observability_config = config.observability_config
        self.kv_transfer_config = config.kv_transfer_config
        self.compilation_config = config.compilation_config
        self.rank = rank
        self.local_rank = local_rank
        self.device = device
        self.is_driver_worker = rank == 0
        self.init_snapshot = snapshot
        self.requested_memory = requested_memory
        self.model_runner = model_runner

    __getattr__ = lacking("Worker")
