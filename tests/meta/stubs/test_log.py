# SPDX-License-Identifier: Apache-2.0
"""What is kept of a log that a subject floods."""

from __future__ import annotations

import pytest

from startup_plan.harness.stubs.log import keep_line


@pytest.mark.parametrize("number", [0, 1, 4999, 5000, 5001, 20_000])
def test_first_and_last_lines_stay_and_the_rest_is_counted(number: int) -> None:
    """However much is logged before and after it, what stands near either end is kept."""
    log: list[tuple[str, str]] = []
    for n in range(number):
        keep_line(log, "info", str(n))
    left_out = [text for _, text in log if "left out" in text]
    missing = int(left_out[0].split()[0]) if left_out else 0
    kept = [text for _, text in log if "left out" not in text]

    assert (len(kept) + missing, len(log) <= 5002) == (number, True)
    assert kept[:2500] == [str(n) for n in range(min(number, 2500))]
    assert kept[-2500:] == [str(n) for n in range(max(0, number - 2500), number)]


def test_a_long_line_is_cut() -> None:
    """A line of a megabyte is kept by its beginning."""
    log: list[tuple[str, str]] = []
    keep_line(log, "info", "x" * (1 << 20))

    assert log == [("info", "x" * 10_000 + "…")]
