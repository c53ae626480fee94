# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the data are synchronised after the rename."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "        os.fsync(descriptor)\n"
            "        closing, descriptor = descriptor, -1\n"
            "        os.close(closing)\n"
            "        os.replace(temporary, path)\n"
        ),
        (
            "        os.replace(temporary, path)\n"
            "        os.fsync(descriptor)\n"
            "        closing, descriptor = descriptor, -1\n"
            "        os.close(closing)\n"
        ),
    ),
)
