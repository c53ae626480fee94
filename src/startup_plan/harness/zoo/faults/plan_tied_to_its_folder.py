# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan holds the path of its folder."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "{PLAN_SCHEMA_VERSION!r}\\nkey {key}\\nkv",
        "{PLAN_SCHEMA_VERSION!r}\\nkey {key} {envs.VLLM_CACHE_ROOT}\\nkv",
    ),
)
