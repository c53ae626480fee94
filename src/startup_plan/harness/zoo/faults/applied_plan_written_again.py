# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a boot that applies a plan writes it again."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '        return kv_bytes, f"applied:',
        (
            "        with contextlib.suppress(Exception):\n"
            "            _publish(self.path, _encode(self.key, kv_bytes, baseline, weights))\n"
            '        return kv_bytes, f"applied:'
        ),
    ),
)
