# SPDX-License-Identifier: Apache-2.0
"""Which answers are equal, and which are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from startup_plan.bench.answers import choices_of, cut_short, first_difference

CALL = {"id": "chatcmpl-tool-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}
CHOICE = {"index": 0, "finish_reason": "stop", "message": MESSAGE, "logprobs": {"content": [0.1]}}


def _answer(**changes: Any) -> bytes:
    return json.dumps({"id": "a", "created": 1, "choices": [CHOICE | changes]}).encode()


def _compare(one: bytes, other: bytes) -> str | None:
    return first_difference(choices_of(one), choices_of(other))


@pytest.mark.parametrize(
    "other",
    [
        _answer(logprobs={"content": [0.2]}),
        _answer(message=MESSAGE | {"tool_calls": [CALL | {"id": "chatcmpl-tool-2"}]}),
        json.dumps({"id": "b", "created": 2, "usage": {}, "choices": [CHOICE]}).encode(),
    ],
    ids=["logprobs", "id-of-a-call", "outside-of-choices"],
)
def test_what_may_vary_is_not_compared(other: bytes) -> None:
    """Ids, times and log probabilities may differ between equal answers."""
    assert _compare(_answer(), other) is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (_answer(finish_reason="length"), 'choices[0].finish_reason: "stop" and "length"'),
        (_answer(index=1), "choices[0].index: 0 and 1"),
        (_answer(index=False), "choices[0].index: 0 and false"),
        (_answer(stop_reason=None), None),
        (_answer(stop_reason="x"), 'choices[0].stop_reason: null and "x"'),
        (_answer(message=MESSAGE | {"content": "hi"}), 'choices[0].message.content: null and "hi"'),
        (
            _answer(
                message=MESSAGE
                | {"tool_calls": [CALL | {"function": {"name": "f", "arguments": "{ }"}}]}
            ),
            'choices[0].message.tool_calls[0].function.arguments: "{}" and "{ }"',
        ),
        (json.dumps({"choices": []}).encode(), "choices: [{"),
    ],
    ids=["finish", "index", "type", "null-is-absent", "stop", "content", "arguments", "count"],
)
def test_what_must_be_equal_is_compared(other: bytes, words: str | None) -> None:
    """Text, tool calls and finish reason must be equal, and the first difference is named."""
    found = _compare(_answer(), other)

    assert found == words or (words is not None and str(found).startswith(words))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"choices": null}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_answer_has_no_choices(body: bytes) -> None:
    """A body that is no such answer has no choices, and nothing is raised."""
    assert choices_of(body) == []


def test_one_choice_at_its_limit_is_enough() -> None:
    """An answer was cut short if any of its choices was."""
    whole, cut = {"finish_reason": "stop"}, {"finish_reason": "length"}

    assert (cut_short([whole]), cut_short([whole, cut]), cut_short([None])) == (False, True, False)
