# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: neither the file nor its folder is synchronised."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        ("        os.fsync(descriptor)\n        closing, descriptor"),
        "        closing, descriptor",
    ),
    (
        "            _sync_folder(entry)\n",
        "            os.path.isdir(entry)\n",
    ),
)
