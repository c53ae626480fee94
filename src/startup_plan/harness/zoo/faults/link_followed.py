# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a link planted under the name of the temporary file is followed."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC",
    ),
)
