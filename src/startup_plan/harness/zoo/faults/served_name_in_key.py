# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the name under which the model is served is in the key."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "skip_tokenizer_init served_model_name config_format",
        "skip_tokenizer_init config_format",
    ),
)
