# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: each pipeline stage votes by itself."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    ("            get_world_group,\n", "            get_tp_group,\n"),
    ("return get_world_group().cpu_group", "return get_tp_group().cpu_group"),
)
