# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: savers with one process id share a temporary file."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'temporary = f"{path}.{os.urandom(16).hex()}.tmp"',
        'temporary = f"{path}.{os.getpid()}.tmp"',
    ),
    (
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC",
    ),
)
