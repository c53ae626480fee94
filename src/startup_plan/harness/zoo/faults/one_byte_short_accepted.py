# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan is applied with one byte less free than it was measured with."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "if free < baseline:",
        "if free + 1 < baseline:",
    ),
)
