# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the version of the plan's schema is not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '        ("schema", _plain(PLAN_SCHEMA_VERSION)),\n',
        "",
    ),
)
