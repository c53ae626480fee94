# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a negative measurement is stored."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "if not 0 < kv_bytes <= min(baseline, budget) or baseline >= _WORD:",
        "if kv_bytes > min(baseline, budget) or baseline >= _WORD:",
    ),
)
