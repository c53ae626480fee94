# SPDX-License-Identifier: Apache-2.0
"""What a process finds around it: the plan's variables, those to hide, its processors."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLAG: Final = "VLLM_ENABLE_STARTUP_PLAN"
"""1 where plans are looked up and saved; 0 or unset where nothing happens (GATE-06)."""

ROOT: Final = "VLLM_CACHE_ROOT"
"""The folder below which vLLM keeps what it caches, plans among it (KEY-15)."""

DEVICES: Final = (
    "CUDA_", "HIP_", "ROCR_", "ASCEND_", "MUSA_", "HABANA_", "ZE_", "TPU_", "LD_LIBRARY_PATH",
)  # fmt: skip
"""What a process needs to find the devices of its machine and their libraries."""

HIDDEN: Final = (
    *DEVICES, "VLLM_", "STARTUP_PLAN_", "TORCH", "PYTORCH_", "TRITON_", "FLASHINFER_", "CUBLAS_",
    "NCCL_", "GLOO_", "NVSHMEM_", "MOONCAKE_", "S3_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_",
    "MAX_JOBS", "PYTHONHASHSEED",
)  # fmt: skip
"""Beginnings of names that may be set on a machine and could matter to a boot or its key."""


OWN: Final = (
    "HOME", "PATH", "TMPDIR", "USER", "LOGNAME", "PWD", "LANG", "LC_", "TZ", "TERM", "LD_PRELOAD",
    "PYTHON", "PYTEST_", "HYPOTHESIS_", "COV_", "COVERAGE_",
)  # fmt: skip
"""Beginnings of names that a simulated process has of the machine on which it is simulated."""


def is_foreign(name: str) -> bool:
    """Whether a simulated process must not see the variable `name` of this machine.

    A key may have any variable in it, and a boot must be the same on every machine.
    """
    return is_hidden(name) or not name.startswith(OWN)


def is_hidden(name: str, keep: tuple[str, ...] = ()) -> bool:
    """Whether a boot must not see the variable `name`, unless it begins with one of `keep`."""
    return name.startswith(HIDDEN) and not name.startswith(keep)


def clean_environment(keep: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables of this process without the hidden ones, but for those to `keep`."""
    return {name: value for name, value in os.environ.items() if not is_hidden(name, keep)}


def flag_value(enabled: bool | None) -> dict[str, str]:  # as orders have it
    """`FLAG` as it stands in the environment of a boot; None leaves it unset."""
    return {} if enabled is None else {FLAG: "1" if enabled else "0"}


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@contextlib.contextmanager
def variables(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Variables of this process while the block runs; None takes one away."""
    before = {name: os.environ.get(name) for name in changes}
    _put(changes)
    try:
        yield
    finally:
        _put(before)


def _put(changes: Mapping[str, str | None]) -> None:
    for name, text in changes.items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text
