# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the old plan is removed before the new one takes its place."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        os.replace(temporary, path)\n",
        (
            "        with contextlib.suppress(FileNotFoundError):\n"
            "            os.unlink(path)\n"
            "        os.replace(temporary, path)\n"
        ),
    ),
)
