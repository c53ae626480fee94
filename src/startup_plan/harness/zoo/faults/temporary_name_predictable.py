# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: anybody can predict the name of the temporary file."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'temporary = f"{path}.{os.urandom(16).hex()}.tmp"',
        'temporary = f"{path}.{os.getpid()}.tmp"',
    ),
)
