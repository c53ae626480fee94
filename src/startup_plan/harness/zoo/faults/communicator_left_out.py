# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the variables of NCCL are not in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '"CUDA_", "CUBLAS", "CUDNN_", "NCCL_", ',
        '"CUDA_", "CUBLAS", "CUDNN_", ',
    ),
)
