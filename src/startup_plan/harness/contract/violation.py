# SPDX-License-Identifier: Apache-2.0
"""How a test says what it found: a sentence broken, or not reached, or nothing to be judged.

Only a `Violation` is a verdict against a subject. Whatever else a test raises is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Collection


@final
class Violation(AssertionError):  # noqa: N818  # the word that reports use
    """A subject broke a requirement.

    Args:
        requirement: the contract id that was broken ("GATE-01"), or None when the test
            carries a single id in its marker.
        story: the shortest history that shows it, in a few short lines that a person can follow.
        evidence: what was found, named as it would be wherever the same is found again: the
            settings that are missing, the cases that failed. For tests that find a number of
            things at once; otherwise the end of the story says it.
    """

    def __init__(self, requirement: str | None, story: str, evidence: Collection[str] = ()) -> None:
        """Keep both parts readable for the report, and the story as the message."""
        super().__init__(story if requirement is None else f"{requirement}: {story}")
        self.requirement = requirement
        self.story = story
        self.evidence = tuple(evidence)


class UndecidedError(Exception):
    """A test could not come to a judgement, and that is no evidence about its sentence."""


class NeverReachedError(Exception):
    """On this subject a test does not come to its point; the message says what was missing.

    Its sentence is neither kept nor broken by that, and the requirement does not hold for it.
    """


def reached(seen: object, missing: str) -> None:
    """Go on, or end, only where a test has come to its point.

    Args:
        seen: what the test has seen of it; nothing of it if that is false.
        missing: what it has not seen, for a person to read.

    Raises:
        NeverReachedError: it has not.
    """
    if not seen:
        raise NeverReachedError(missing)
