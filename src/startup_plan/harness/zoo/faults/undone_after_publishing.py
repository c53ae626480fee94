# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a failure after the plan is published takes it back."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        with contextlib.suppress(Exception):\n            _sync_folder(entry)\n",
        (
            "        try:\n"
            "            _sync_folder(entry)\n"
            "        except OSError:\n"
            "            os.unlink(path)\n"
            "            raise\n"
        ),
    ),
)
