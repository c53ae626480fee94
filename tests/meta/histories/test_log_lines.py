# SPDX-License-Identifier: Apache-2.0
"""What the lines of one boot say more than those of another, in whatever words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.histories.log_lines import PATH, added_words, mentions
from startup_plan.harness.stubs.units import GIB

if TYPE_CHECKING:
    from startup_plan.harness.world.world import World


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("free 64424509440 bytes", True),
        ("free 64,424,509,440 bytes", True),
        ("free 60.00 GiB", True),
        ("free 60 GiB", False),
        ("free 164424509440", False),
        ("free 160.00 GiB", False),
    ],
)
def test_a_number_is_named_exactly_or_in_two_decimals(line: str, said: bool) -> None:
    """Bytes with or without separators, and GiB; a number within a longer one is another."""
    assert mentions(line, 60 * GIB) is said


def test_numbers_and_keys_are_no_words(world: World) -> None:
    """Another size, another key and another path say nothing that the usual line does not."""
    usual = [f"applied 0123456789abcdef, 12.50 GiB, from {world.cache_root}/startup_plan/a.json"]
    lines = [f"applied fedcba9876543210, 99.25 GiB, from {world.cache_root}/startup_plan/b.json"]

    assert {word for word in added_words(world, lines, usual) if word[0].isalpha()} == {PATH}


def test_names_are_words_however_they_are_written(world: World) -> None:
    """Options, settings by their path and variables are found in lower case, `-` as `_`."""
    lines = ["none found: --max-num-seqs, scheduler_config.max_num_seqs, NCCL_BUFFSIZE differ."]
    added = added_words(world, lines, ["none found"])

    assert added == {
        "__max_num_seqs",
        "scheduler_config.max_num_seqs",
        "nccl_buffsize",
        "differ",
    }
