# SPDX-License-Identifier: Apache-2.0
"""How a test says which requirement was broken, and by what history; or that it cannot tell."""

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
