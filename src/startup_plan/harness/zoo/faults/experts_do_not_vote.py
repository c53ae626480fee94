# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: replicas of a mixture of experts do not vote."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        or (replicas > 1 and getattr(",
        "        or (replicas > 9999 and getattr(",
    ),
)
