# SPDX-License-Identifier: Apache-2.0
"""What tests of saves are repeated over."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["first", "overwrite"])
def over_old(request: pytest.FixtureRequest) -> bool:
    """Whether an earlier plan lies there when a save begins."""
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["once", "for-good"])
def persistent(request: pytest.FixtureRequest) -> bool:
    """Whether all operations after the one that fails do so as well."""
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["short-A", "long-A"])
def a_is_longer(request: pytest.FixtureRequest) -> bool:
    """Whether the first of two savers saves the value that has more digits."""
    return bool(request.param)
