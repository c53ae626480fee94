# SPDX-License-Identifier: Apache-2.0
"""Threads that take turns: one order, simulated time, and hangs that are seen."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.world.turns import PATIENCE, Turns

if TYPE_CHECKING:
    from collections.abc import Iterator


def _turns() -> Turns:
    return Turns(lambda _: contextlib.nullcontext())


def test_one_runs_at_a_time_and_hands_over_where_it_waits() -> None:
    """Who need not wait goes on, and every run has the same order."""
    turns, order = _turns(), list[str]()

    def body(name: str) -> None:
        order.append(f"{name} begins")
        turns.wait(lambda: len(order) >= 2, None, "the other")
        order.append(f"{name} ends")

    hung = turns.run([partial(body, "A"), partial(body, "B")])

    assert (hung, order) == (["", ""], ["A begins", "B begins", "B ends", "A ends"])


def test_a_hang_is_the_moment_in_which_everybody_waits() -> None:
    """Who waits in vain is ended, past any handler of exceptions, and says for what."""
    turns, after = _turns(), list[str]()

    def waits() -> None:
        with contextlib.suppress(Exception):
            turns.wait(lambda: False, None, "a vote")
        after.append("went on")

    assert turns.run([waits, lambda: after.append("ended")]) == ["a vote", ""]
    assert after == ["ended"]


def test_time_passes_only_when_everybody_waits() -> None:
    """Patience ends in the order of its length, and only where nobody can go on."""
    turns, order = _turns(), list[tuple[str, bool]]()

    def body(name: str, seconds: float) -> None:
        order.append((name, turns.wait(lambda: False, seconds, "nothing")))

    hung = turns.run([partial(body, "long", PATIENCE), partial(body, "short", 1.0)])

    assert (hung, order) == (["", ""], [("short", False), ("long", False)])


def test_patience_beyond_the_limit_is_a_hang() -> None:
    """Who would wait for longer than any operator does hangs."""
    turns = _turns()

    def body() -> None:
        turns.wait(lambda: False, PATIENCE + 1, "a vote")

    assert turns.run([body]) == ["a vote"]


def test_whoever_gave_up_can_let_the_others_go_on() -> None:
    """A limit that passes is no hang for those who wait for what happens after."""
    turns, given_up = _turns(), list[bool]()

    def impatient() -> None:
        given_up.append(turns.wait(lambda: False, 5.0, "a vote"))

    def patient() -> None:
        turns.wait(lambda: bool(given_up), None, "its neighbour")

    assert turns.run([patient, impatient]) == ["", ""]
    assert given_up == [False]


def test_what_a_body_raises_is_raised() -> None:
    """An error of a body reaches whoever runs the turns, after all have come to an end."""
    turns, ended = _turns(), list[str]()

    def fails() -> None:
        raise LookupError("in a thread")

    with pytest.raises(LookupError, match="in a thread"):
        turns.run([fails, lambda: ended.append("other")])

    assert ended == ["other"]


def test_each_turn_is_held_by_its_number() -> None:
    """What stands for the process of a thread is entered around each of its turns, and left."""
    held = list[str]()

    @contextlib.contextmanager
    def hold(number: int) -> Iterator[None]:
        held.append(f"+{number}")
        yield
        held.append(f"-{number}")

    def body() -> None:
        turns.wait(lambda: len(held) > 2, None, "the other")

    turns = Turns(hold)
    turns.run([body, lambda: None])

    assert held == ["+0", "-0", "+1", "-1", "+0", "-0"]
