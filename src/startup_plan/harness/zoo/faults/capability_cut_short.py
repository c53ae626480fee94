# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: of the compute capability only the major version is in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "return (_plain(name), _plain(total), "
            "_plain(current_platform.get_device_capability(index)))"
        ),
        (
            "capability = current_platform.get_device_capability(index)\n"
            '    return (_plain(name), _plain(total), getattr(capability, "major", None))'
        ),
    ),
)
