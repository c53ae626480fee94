# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: sizes of other integral types are not stored."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    if isinstance(value, bool):\n        raise TypeError",
        "    if type(value) is not int:\n        raise TypeError",
    ),
)
