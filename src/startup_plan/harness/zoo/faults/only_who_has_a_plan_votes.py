# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: only ranks with a plan come to vote."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if _is_grouped(worker.parallel_config):\n",
        "        if kv_bytes is not None and _is_grouped(worker.parallel_config):\n",
    ),
)
