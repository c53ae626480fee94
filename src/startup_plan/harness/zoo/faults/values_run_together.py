# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: values enter the key without anything between them."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        'return ("config", _name(kind), ",".join(names), *items)',
        (
            "texts = [item if isinstance(item, str) else repr(item) for item in items]\n"
            '    return ("config", _name(kind), ",".join(names), "".join(texts))'
        ),
    ),
)
