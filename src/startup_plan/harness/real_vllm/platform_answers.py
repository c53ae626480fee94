# SPDX-License-Identifier: Apache-2.0
"""What vLLM's own CUDA platform answers on a host with made-up cards, as JSON.

    python -m startup_plan.harness.real_vllm.platform_answers HOST

HOST is JSON: the cards (name, total, capability and UUID of each), the numbers by which each query
is asked, and cases: the value of CUDA_VISIBLE_DEVICES, and the cards that vLLM is assigned or null.
The driver is played; the platform and its arithmetic are vLLM's. What the driver raises is a
`DriverError` here.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUERIES: Final = (
    "get_device_name",
    "get_device_total_memory",
    "get_device_capability",
    "get_device_uuid",
    "device_id_to_physical_device_id",
    "logical_device_id_to_visible_device_id",
    "visible_device_id_to_physical_device_id",
)


class DriverError(Exception):
    """The driver knows no such device."""


def _driver(cards: list[list[Any]]) -> SimpleNamespace:
    def by_index(number: int) -> int:
        if not 0 <= number < len(cards):
            raise DriverError
        return number

    def by_uuid(name: str) -> int:
        for number, card in enumerate(cards):
            if card[3] == name:
                return number
        raise DriverError

    return SimpleNamespace(
        NVMLError=DriverError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=by_index,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetIndex=lambda handle: handle,
        nvmlDeviceGetName=lambda handle: cards[handle][0],
        nvmlDeviceGetUUID=lambda handle: cards[handle][3],
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=cards[handle][1]),
        nvmlDeviceGetCudaComputeCapability=lambda handle: tuple(cards[handle][2]),
    )


def answers(platform: Any, numbers: Sequence[int]) -> dict[str, list[Any]]:
    """Every query of every number: the answer, or the type of what it raised."""
    return {query: [_tried(getattr(platform, query), number) for number in numbers]
            for query in _QUERIES}  # fmt: skip


def _tried(query: Any, number: int) -> Any:
    try:
        answer = query(number)
    except Exception as error:
        return type(error).__name__
    return list(answer) if isinstance(answer, tuple) else answer


def main() -> None:
    """Ask in each case, and print."""
    cards, numbers, cases = json.loads(sys.argv[1])
    import_utils = importlib.import_module("vllm.utils.import_utils")
    vars(import_utils)["import_pynvml"] = lambda: _driver(cards)
    # The kernels of a CUDA build, which are nothing to a question about devices.
    sys.modules.setdefault("vllm._C_stable_libtorch", ModuleType("vllm._C_stable_libtorch"))
    platform = importlib.import_module("vllm.platforms.cuda").NvmlCudaPlatform
    interface = importlib.import_module("vllm.platforms.interface")
    found = []
    for visible, assigned in cases:
        # Each case is a process, for which both are settled once.
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
        vars(interface)["_assigned_physical_gpu_ids"] = assigned
        platform.get_device_capability.__func__.cache_clear()
        found.append(answers(platform, numbers))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
