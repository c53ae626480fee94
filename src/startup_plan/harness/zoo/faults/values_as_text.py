# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: values enter the key as text, without their types."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'return ("config", _name(kind), ",".join(names), *items)',
        'return ("config", _name(kind), ",".join(names), *map(str, items))',
    ),
)
