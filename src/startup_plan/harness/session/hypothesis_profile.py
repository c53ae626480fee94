# SPDX-License-Identifier: Apache-2.0
"""Brings Hypothesis into the state that a verdict needs."""

from __future__ import annotations

import os

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from startup_plan.harness.contract import profiles


def load_profile(config: pytest.Config) -> tuple[str, int | None]:
    """Load the profile in force; give its name, and the seed of this session if it has one.

    The profile is the option's, otherwise that of Hypothesis' own option, otherwise that of the
    variable HYPOTHESIS_PROFILE, otherwise `ci`.
    """
    profiles.register()
    own: str | None = config.getoption("--hypothesis-profile", None)
    name: str = (
        config.getoption("--gate-profile") or own or os.environ.get("HYPOTHESIS_PROFILE") or "ci"
    )
    if name not in profiles.NAMES:
        if name == own:
            return name, _seed(config)
        known = ", ".join(profiles.NAMES)
        raise pytest.UsageError(f"HYPOTHESIS_PROFILE: unknown profile {name!r}: known are {known}")
    seed = _seed(config)
    if seed is None:
        hypothesis.settings.load_profile(name)
    else:
        # A derandomized profile would not look at the seed.
        seeded = hypothesis.settings(hypothesis.settings.get_profile(name), derandomize=False)
        hypothesis.settings.register_profile(f"{name}-seeded", seeded)
        hypothesis.settings.load_profile(f"{name}-seeded")
    if own is not None:
        # Its own plugin would load the option's profile over this one.
        config.option.hypothesis_profile = None
    ignore_local_constants()
    return name, seed


def ignore_local_constants() -> None:
    """Keep Hypothesis from drawing constants that it finds in the source of imported modules.

    Which modules it takes for the user's own depends on where they lie (a checkout or
    site-packages) and on what happens to be imported, so the same suite would try other examples,
    and could come to another verdict, for no visible reason. It also reads every module of every
    simulated boot anew.
    """
    # There is no setting for it; a test of the suite fails when these names are gone.
    nothing = providers._local_constants
    providers._get_local_constants = lambda: nothing


def _seed(config: pytest.Config) -> int | None:
    given = config.getoption("--hypothesis-seed", None)
    if given is None:
        return None
    try:
        return int(given)
    except ValueError:
        raise pytest.UsageError(f"--hypothesis-seed: {given!r} is not a whole number") from None
