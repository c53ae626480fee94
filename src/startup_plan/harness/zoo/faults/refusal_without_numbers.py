# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a refusal does not say how much memory was missing."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'f"refused: {free} bytes are free, it was measured with {baseline}"',
        '"refused: less memory is free than at its measurement"',
    ),
)
