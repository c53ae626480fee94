# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: device 0 is asked instead of the worker's own."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "current_platform.get_device_name(counted)",
        "current_platform.get_device_name()",
    ),
    (
        "current_platform.get_device_total_memory(counted)",
        "current_platform.get_device_total_memory()",
    ),
    (
        "current_platform.get_device_capability(index)",
        "current_platform.get_device_capability()",
    ),
)
