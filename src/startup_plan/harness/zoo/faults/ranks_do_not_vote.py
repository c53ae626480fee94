# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: every rank decides by itself."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if _is_grouped(worker.parallel_config):\n",
        "        if worker.parallel_config.world_size < 0:\n",
    ),
)
