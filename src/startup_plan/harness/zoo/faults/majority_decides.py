# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: ranks follow the majority."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    if kv_bytes is None or not against:\n",
        "    if kv_bytes is None or 2 * len(against) < len(everyone):\n",
    ),
)
