# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the plan is written in place."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'temporary = f"{path}.{os.urandom(16).hex()}.tmp"',
        "temporary = path",
    ),
    (
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC",
    ),
    (
        "        os.replace(temporary, path)\n",
        "",
    ),
)
