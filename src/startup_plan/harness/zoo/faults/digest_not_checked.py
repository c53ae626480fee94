# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the digest is written and never compared."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    if data != _encode(key, kv_bytes, baseline, weights):\n",
        "    if data[:-24] != _encode(key, kv_bytes, baseline, weights)[:-24]:\n",
    ),
)
