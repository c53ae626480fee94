# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan that is refused for heavier weights leaves 0 behind."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '            return None, f"refused: weights take',
        '            return 0, f"refused: weights take',
    ),
)
