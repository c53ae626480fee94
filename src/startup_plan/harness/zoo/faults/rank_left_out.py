# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the rank is not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '("rank", _plain(rank), _plain(world_size)),',
        '("rank", _plain(world_size)),',
    ),
)
