# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: an fsync that fails is passed over, the file renamed all the same."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        ("        os.fsync(descriptor)\n        closing, descriptor"),
        (
            "        with contextlib.suppress(OSError):\n"
            "            os.fsync(descriptor)\n"
            "        closing, descriptor"
        ),
    ),
)
