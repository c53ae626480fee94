# SPDX-License-Identifier: Apache-2.0
"""The model runner under vLLM's own worker: it records every pass and takes memory for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from .device import Accelerator
    from .order import Load


@final
class RecordingRunner:
    """Stands where vLLM's GPU model runner stands.

    Args:
        load: what the passes take, in bytes.
        accelerator: where they take it.
        calls: list to which the name of each pass is appended.
        meet: runs a collective of all ranks that profile together; called with the pass's name.
        runs_out: the pass in which there is no memory left, or "".
    """

    is_pooling_model = False
    lora_config = None

    def __init__(
        self,
        load: Load,
        accelerator: Accelerator,
        calls: list[str],
        meet: Callable[[str], None],
        runs_out: str = "",
    ) -> None:
        """A runner without a model."""
        self._load = load
        self._accelerator = accelerator
        self._meet = meet
        self._runs_out = runs_out
        self._has_profiled = False
        self.calls = calls
        self.model_memory_usage = 0

    def load_model(self, **_: Any) -> None:
        """Take the weights."""
        self._accelerator.take(weights=self._load.weights - self._load.unseen)
        self.model_memory_usage = self._load.weights

    def profile_run(self, **_: Any) -> None:
        """A forward pass at the largest batch, in which all ranks take part."""
        self._begin("profile_run")
        self._meet("profile run")
        if not self._has_profiled:
            self._accelerator.take(outside=self._load.persistent)
            self._has_profiled = True
        self._accelerator.pass_through(self._load.activations)

    def profile_cudagraph_memory(self) -> int:
        """The estimate of CUDA-graph memory, in which all ranks take part; bytes."""
        self._begin("profile_cudagraph_memory")
        self._meet("graph estimate")
        return self._load.estimate

    def capture_model(self) -> int:
        """Capture the CUDA graphs; the bytes that they took."""
        self._begin("capture_model")
        self._accelerator.take(outside=self._load.graphs)
        return self._load.graphs

    def _begin(self, name: str) -> None:
        self.calls.append(name)
        if name == self._runs_out:
            import torch  # noqa: PLC0415  # only a child that boots may import it

            raise torch.OutOfMemoryError(f"simulated out of memory in {name}")

    def get_model(self) -> None:
        """No model: there is nothing to compile."""

    def maybe_remove_all_loras(self, _: Any) -> None:
        """No adapter was loaded."""

    def _dummy_run(self, *_: Any, **__: Any) -> tuple[None, None]:
        self.calls.append("dummy_run")
        return None, None

    def _dummy_sampler_run(self, *_: Any, **__: Any) -> None:
        self.calls.append("dummy_sampler_run")
