# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the key is computed again when the plan is saved."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            '            return "not saved: this boot did not measure, a value was '
            'given or applied"\n'
        ),
        (
            '            return "not saved: this boot did not measure, a value was '
            'given or applied"\n'
            "        self.identify(worker)\n"
        ),
    ),
)
