# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the number of speculative tokens is not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        tensor_parallel_size disable_eagle_block_drop",
        "        num_speculative_tokens tensor_parallel_size disable_eagle_block_drop",
    ),
)
