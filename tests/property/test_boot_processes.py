# SPDX-License-Identifier: Apache-2.0
"""Boots in real new processes, as boots are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.world.another_process import boot_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.session.fixtures import Tally


@pytest.mark.requirement("BOOT-01")
def test_what_one_process_saved_the_next_applies(
    pytestconfig: pytest.Config, fresh_folder: Callable[[], Path], tally: Tally
) -> None:
    """A plan that one process saved is applied by the next, whose hash seed is another."""
    subject, folder = pytestconfig.getoption("--subject"), str(fresh_folder())
    first = boot_elsewhere(subject, folder, "1")
    second = boot_elsewhere(subject, folder, "2")
    tally(boots=2)

    if second.applied is None or second.applied != first.suggestion:
        raise Violation("BOOT-01", f"{first}; in a new process, {second}")
