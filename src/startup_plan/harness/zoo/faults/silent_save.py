# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: nothing is said of a plan that was stored."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '        verdict = f"not saved: {_shown(error)}"\n    _say(verdict)\n',
        (
            '        verdict = f"not saved: {_shown(error)}"\n'
            '    if verdict.startswith("not saved"):\n'
            "        _say(verdict)\n"
        ),
    ),
)
