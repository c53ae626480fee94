# SPDX-License-Identifier: Apache-2.0
"""The reference's vote: what happens when a rank never comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.real_vllm.group_scenes import ODD, SHAPES, Group
from startup_plan.harness.real_vllm.host import Booter, RealHost
from startup_plan.reference.vote import VOTE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from startup_plan.harness.world.subject import Subject

pytestmark = pytest.mark.vllm

PAIR: Final = next(iter(SHAPES))


@pytest.fixture(scope="module")
def reference(
    subject: Subject, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Booter]:
    """Boots the reference, whatever the subject is."""
    if subject.name == "reference":
        yield request.getfixturevalue("booter")
        return
    with Booter("reference", tmp_path_factory.mktemp("vllm") / "errors") as running:
        yield running


def test_a_silent_rank_is_named(reference: Booter, fresh_folder: Callable[[], Path]) -> None:
    """A vote that one rank never joins ends in an error that says who, on the rank that counts."""
    group = Group(RealHost(reference, fresh_folder()), PAIR)
    order = group.order(stays_away=True)
    order.environment[VOTE_SECONDS] = "2"
    order.patience = 20.0
    first, silent = group.host.boot(order)
    said = str(first.raised)

    assert (first.hung, first.where, silent.stage) == (False, "apply", "look-up")
    assert said.startswith("VoteError: Startup plan: the ranks' vote")
    assert ("did not come back within 2 s", f"Ranks {ODD} failed") == (
        said[said.index("did not") :][:28],
        said[said.index("Ranks") :][:14],
    )
