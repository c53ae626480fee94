# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: only the user who saved a plan can read it."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "descriptor = os.open(temporary, flags, 0o666)",
        "descriptor = os.open(temporary, flags, 0o600)",
    ),
)
