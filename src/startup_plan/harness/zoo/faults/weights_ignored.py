# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: what the loaded weights take is not looked at."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "self.weights = None if used is None else math.ceil(used)",
        "self.weights = None",
    ),
)
