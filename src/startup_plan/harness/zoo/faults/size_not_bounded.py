# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the file is read whole before anybody looks at its size."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT:",
        "if not stat.S_ISREG(status.st_mode):",
    ),
    (
        "(part := os.read(descriptor, _LIMIT + 1 - len(data)))",
        "(part := os.read(descriptor, status.st_size + 1))",
    ),
)
