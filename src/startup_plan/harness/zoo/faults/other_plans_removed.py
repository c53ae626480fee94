# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: storing a plan removes all others."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "    for entry in durable:\n",
        (
            "    with contextlib.suppress(OSError):\n"
            "        for name in os.listdir(folder):\n"
            '            if name.endswith(".json") and name != os.path.basename(path):\n'
            "                os.unlink(os.path.join(folder, name))\n"
            "    for entry in durable:\n"
        ),
    ),
)
