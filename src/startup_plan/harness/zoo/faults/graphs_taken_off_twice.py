# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: cUDA graphs are taken off twice."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "            kv_bytes = _graphs_once(worker, _whole(value))\n",
        "            kv_bytes = _whole(value)\n",
    ),
)
