# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the version of HIP is not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'names = {"cuda", "hip", "xpu", *vars(torch.version)}',
        'names = {"cuda", "xpu"}',
    ),
)
