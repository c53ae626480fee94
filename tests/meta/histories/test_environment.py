# SPDX-License-Identifier: Apache-2.0
"""The lists of variables say why each is there, and contradict neither vLLM's nor each other."""

from __future__ import annotations

from collections import Counter

from startup_plan.harness.histories.environment import STARTS, TAKES
from startup_plan.harness.stubs.settings import EXTRA_VARIABLES, VARIABLES


def test_every_variable_that_takes_memory_says_how_and_where_that_can_be_read() -> None:
    """No subject is blamed for a variable whose effect nobody can argue."""
    odd = [each.name for each in TAKES if not (each.why and each.source)]
    unconditional = [each.name for each in TAKES if not (each.connector or each.backend)]
    alike = [each.name for each in TAKES if len(set(each.texts)) != 2]

    assert (odd, unconditional, alike) == ([], [], [])


def test_every_start_differs_from_the_next_in_every_variable() -> None:
    """A variable with equal values at both starts would be judged by nothing."""
    alike = [name for start in STARTS for name, (one, two) in start.variables.items() if one == two]
    unsourced = [start.writer for start in STARTS if not start.source]

    assert (alike, unsourced) == ([], [])


def test_no_variable_is_on_both_sides() -> None:
    """What a start writes takes no memory, by this list and by the audit of vLLM's own."""
    names = Counter(name for start in STARTS for name in start.variables)
    moving = {each.name for each in (*VARIABLES, *EXTRA_VARIABLES) if each.moves is not False}
    moving |= {each.name for each in TAKES}

    assert [name for name, count in names.items() if count > 1 or name in moving] == []
    assert len(names) > 100
