# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: memory that others gave back is taken for free."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if consumed is not None and self.weights is not None and consumed < self.weights:",
        "        if consumed is not None and self.weights is not None and consumed < 0:",
    ),
)
