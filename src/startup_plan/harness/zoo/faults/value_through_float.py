# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the value passes through a float on its way."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'return kv_bytes, f"applied:',
        'return int(float(kv_bytes)), f"applied:',
    ),
)
