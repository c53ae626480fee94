# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: what is free beyond the baseline is added to the value."""

from __future__ import annotations

from startup_plan.harness.zoo import seed

seed(
    globals(),
    (
        '        return kv_bytes, f"applied:',
        (
            "        kv_bytes = min(kv_bytes + free - baseline, budget)\n"
            '        return kv_bytes, f"applied:'
        ),
    ),
)
