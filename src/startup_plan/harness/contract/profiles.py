# SPDX-License-Identifier: Apache-2.0
"""Hypothesis settings shared by the whole suite, in one place.

`ci` and `quick` are deterministic: a gate that answers differently twice is a defect. `nightly` is
random, larger and keeps an example database, because a deterministic run never finds anything new.
`mutation` is small, for tools that run the suite once per mutant.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, Phase, settings

NAMES: Final = ("ci", "quick", "nightly", "mutation")

# Explaining a failure costs many times what finding and shrinking it does; the stories explain.
_PHASES: Final = tuple(phase for phase in Phase if phase is not Phase.explain)
_SLOW: Final = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)


def register() -> None:
    """Register every profile; loading one is the pytest plugin's work."""
    common = settings(deadline=None, print_blob=True, phases=_PHASES, suppress_health_check=_SLOW)
    settings.register_profile(
        "ci", common, derandomize=True, database=None, report_multiple_bugs=False
    )
    settings.register_profile("quick", settings.get_profile("ci"), max_examples=10)
    settings.register_profile("nightly", common, max_examples=2000, report_multiple_bugs=False)
    settings.register_profile(
        "mutation",
        settings.get_profile("ci"),
        max_examples=25,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=tuple(HealthCheck),
    )


def is_thorough() -> bool:
    """Whether the profile in force asks for as many examples as `ci` does, or more."""
    return settings().max_examples >= 100


def scaled(examples: int) -> int:
    """`examples` as written for the `ci` profile, scaled to the profile in force."""
    return max(5, examples * settings().max_examples // 100)
