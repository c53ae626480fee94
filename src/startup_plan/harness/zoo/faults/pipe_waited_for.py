# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: opening the file may wait."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC",
        "os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC",
    ),
)
