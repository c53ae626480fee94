# SPDX-License-Identifier: Apache-2.0
"""One boot of a subject with real vLLM objects, to see under which name it saves its plan.

Only what a machine without an accelerator lacks is made up: the worker, its device with an index,
its memory figures. The configuration, torch, the platform and the variables are real.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.stubs.units import GIB
from startup_plan.support.environment import FLAG, ROOT, variables
from startup_plan.support.plan_files import is_plan, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from startup_plan.harness.world.subject import Subject

NOT_VARIED: Final = frozenset({FLAG, ROOT})
"""Variables without which, or with another value of which, no saved plan could be seen."""

_TOTAL: Final = 1024 * GIB
_FREE: Final = 1000 * GIB
_MEASURED: Final = 3 * GIB
"""So little that it stays within any utilization that a configuration may be given."""


class NoKeyError(Exception):
    """The boot saved nothing, so its key cannot be seen; the message says why."""


class _Snapshot:
    """What the worker read of its device before it loaded weights, in bytes."""

    def __init__(self) -> None:
        self.free_memory = _FREE
        self.total_memory = _TOTAL
        self.cuda_memory = _TOTAL - _FREE
        self.torch_memory = 0
        self.non_torch_memory = 0
        self.torch_peak = 0
        self.timestamp = 0.0


class _Runner:
    """A model runner that has loaded its weights."""

    model_memory_usage = GIB


class _Worker:
    """The worker after it has loaded its weights, with the attributes that vLLM's has."""

    def __init__(self, config: Any) -> None:
        import torch  # noqa: PLC0415  # this package must not import torch

        self.vllm_config = config
        for name in ("model", "cache", "lora", "load", "parallel", "scheduler", "device"):
            setattr(self, f"{name}_config", getattr(config, f"{name}_config", None))
        for name in ("speculative", "observability", "kv_transfer", "compilation"):
            setattr(self, f"{name}_config", getattr(config, f"{name}_config", None))
        self.rank = 0
        self.local_rank = 0
        self.is_driver_worker = True
        self.device = torch.device("cpu", 0)
        self.init_snapshot = _Snapshot()
        self.model_runner = _Runner()
        self.requested_memory = _FREE


class Boots:
    """Boots one subject over and over, each time in an empty plan folder.

    Args:
        subject: the subject; it was loaded before vLLM was imported.
        root: a folder of our own, the cache root of every boot.
    """

    def __init__(self, subject: Subject, root: Path) -> None:
        """Nothing is booted yet."""
        self._subject = subject
        self._root = root
        self._heard = _Listener()
        self.count = 0

    def key(self, config: Any) -> str:
        """The name under which a boot with `config` saves its plan.

        Raises:
            NoKeyError: it saved nothing, or raised.
        """
        self.count += 1
        self._heard.last = ""
        self._empty()
        with variables({FLAG: "1", ROOT: str(self._root)}), self._heard.listening():
            try:
                module = self._subject.fresh()
                worker = _Worker(config)
                module.maybe_apply_startup_plan(worker)
                module.maybe_save_startup_plan(worker, _MEASURED)
            except Exception as error:
                raise NoKeyError(f"{type(error).__name__}: {error}"[:300]) from None
        names = [name for _, _, files in os.walk(self._root) for name in files]
        plans = [name for name in names if is_plan(name)]
        if len(plans) != 1:
            raise NoKeyError(self._heard.last or "nothing was saved")
        return key_of(plans[0])

    def _empty(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._root):
                shutil.rmtree(os.path.join(self._root, name), ignore_errors=True)


class _Listener(logging.Handler):
    """Keeps the last line that a subject logged below `vllm`."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()[:300]

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        logger = logging.getLogger("vllm")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


def simulate_device(platform: Any) -> None:
    """Let `current_platform` know one device of a constant size in this process.

    The CPU's platform answers with the memory of the machine, which may be another a second later
    (on a virtual machine that gives some of it back), and which says nothing about a plan.
    """
    platform.get_device_name = lambda *_, **__: "Simulated accelerator"
    platform.get_device_total_memory = lambda *_, **__: _TOTAL
    platform.get_device_capability = lambda *_, **__: None


def remember_model_texts() -> None:
    """Let transformers spell each state of a model configuration once in this process.

    vLLM's hash spells the same few models thousands of times here, which is most of the time that
    a census takes. The text is a function of the class and the state, so nothing else changes.
    """
    from transformers import PretrainedConfig  # noqa: PLC0415  # takes a second

    spell, known = PretrainedConfig.to_json_string, {}

    def to_json_string(self: Any, use_diff: bool = True) -> str:
        state = (type(self), use_diff, repr(vars(self)))
        if state not in known:
            known[state] = spell(self, use_diff)
        text: str = known[state]
        return text

    PretrainedConfig.to_json_string = to_json_string


def remember_distributions() -> None:
    """Let each version of an installed distribution be read once in this process.

    Each boot executes the subject's modules anew, and with them what they remember is lost.
    """
    read, known = importlib.metadata.version, dict[str, str | None]()

    def version(distribution_name: str) -> str:
        if distribution_name not in known:
            try:
                known[distribution_name] = read(distribution_name)
            except importlib.metadata.PackageNotFoundError:
                known[distribution_name] = None
        found = known[distribution_name]
        if found is None:
            raise importlib.metadata.PackageNotFoundError(distribution_name)
        return found

    importlib.metadata.version = version
