# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a device that does not answer gets a key all the same."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "    total = current_platform.get_device_total_memory(counted)\n"
            "    if not name or not total:\n"
        ),
        (
            "    try:\n"
            "        total = current_platform.get_device_total_memory(counted)\n"
            "    except Exception:\n"
            '        total = "unknown"\n'
            "    if not name or not total:\n"
        ),
    ),
)
