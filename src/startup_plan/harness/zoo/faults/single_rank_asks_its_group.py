# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a rank that is alone asks for its process group."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if _is_grouped(worker.parallel_config):\n",
        (
            "        from vllm.distributed.parallel_state import get_world_group\n"
            "\n"
            "        if get_world_group().world_size > 1 or "
            "_is_grouped(worker.parallel_config):\n"
        ),
    ),
)
