# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the key is made with Python's own hash()."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "return hashlib.sha256(repr(factors).encode()).hexdigest()[:16]",
        'return f"{hash(repr(factors)) % (1 << 64):016x}"',
    ),
)
