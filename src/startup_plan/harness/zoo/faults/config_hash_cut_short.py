# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: only the first characters of the config hash are in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '("hash", _plain(vllm_config.compute_hash())),',
        '("hash", _plain(vllm_config.compute_hash()[:8])),',
    ),
)
