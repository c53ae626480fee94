# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a boot that applies a plan writes it again."""

from __future__ import annotations

from startup_plan.harness.zoo import seed

seed(
    globals(),
    (
        "        self.settled = True\n        return verdict\n",
        (
            "        self.settled = True\n"
            "        with contextlib.suppress(Exception):\n"
            "            _publish(self.path, _read(self.path))\n"
            "        return verdict\n"
        ),
    ),
)
