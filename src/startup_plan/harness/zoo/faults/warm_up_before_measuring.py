# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a boot without a plan runs the model once more than before."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "        if kv_bytes is None:\n            return verdict\n",
        (
            "        if kv_bytes is None:\n"
            "            worker.model_runner.profile_run()\n"
            "            return verdict\n"
        ),
    ),
)
