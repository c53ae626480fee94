# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the key has 12 characters."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "return hashlib.sha256(repr(factors).encode()).hexdigest()[:16]",
        "return hashlib.sha256(repr(factors).encode()).hexdigest()[:12]",
    ),
)
