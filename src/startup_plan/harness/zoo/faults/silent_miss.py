# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: nothing is said where there is no plan."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '        verdict = f"not applied: {_shown(error)}"\n    _say(verdict)\n',
        (
            '        verdict = f"not applied: {_shown(error)}"\n'
            '    if "none found" not in verdict:\n'
            "        _say(verdict)\n"
        ),
    ),
)
