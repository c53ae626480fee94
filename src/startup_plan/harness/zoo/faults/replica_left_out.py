# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the data-parallel rank is not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '    "ParallelConfig": """\n',
        (
            '    "ParallelConfig": """\n'
            "        data_parallel_rank data_parallel_index data_parallel_rank_local\n"
        ),
    ),
)
