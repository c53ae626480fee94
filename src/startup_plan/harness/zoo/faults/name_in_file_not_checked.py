# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan that was made for another key is applied."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    if data != _encode(key, kv_bytes, baseline, weights):\n",
        (
            '    named = data.decode("ascii").split("\\n")[1][4:]\n'
            "    if data != _encode(named, kv_bytes, baseline, weights):\n"
        ),
    ),
)
