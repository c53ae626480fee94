# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the file is renamed before its data are on the disk."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        os.fsync(descriptor)\n        closing, descriptor",
        "        closing, descriptor",
    ),
)
