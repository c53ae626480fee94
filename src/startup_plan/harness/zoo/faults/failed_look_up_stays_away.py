# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a rank whose look-up failed does not vote."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if _is_grouped(worker.parallel_config):\n",
        "        if not self.trouble and _is_grouped(worker.parallel_config):\n",
    ),
)
