# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan is applied with up to 256 MiB less free, and nothing is taken off."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "if free < baseline:",
        "if free < baseline - (256 << 20):",
    ),
)
