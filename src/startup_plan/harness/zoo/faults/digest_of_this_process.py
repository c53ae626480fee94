# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the digest in the file is made with Python's own hash()."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'f"sha256 {hashlib.sha256(body).hexdigest()[:16]}\\n"',
        'f"sha256 {hash(body) % (1 << 64):016x}\\n"',
    ),
)
