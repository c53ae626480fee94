# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the version of vLLM is in the key only through the config hash."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "return (str(vllm_version), str(torch.__version__), _plain(builds))",
        "return (str(torch.__version__), _plain(builds))",
    ),
)
