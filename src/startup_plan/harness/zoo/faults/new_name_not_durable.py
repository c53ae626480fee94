# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the folder is not synchronised after the rename."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "    for entry in durable:\n"
            "        with contextlib.suppress(Exception):\n"
            "            _sync_folder(entry)\n"
        ),
        "    del durable\n",
    ),
)
