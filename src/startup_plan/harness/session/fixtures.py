# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the subject, worlds to boot it in, and a place to count."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World
from startup_plan.support.scratch import remove_scratch

from .witness import account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from startup_plan.harness.stubs.state import Device
    from startup_plan.harness.world.subject import Subject

SCRATCH: Final = pytest.StashKey[Path]()
"""The session's folder on the fastest file system there is."""


class Tally(Protocol):
    """Adds to the counts of the running test."""

    def __call__(self, **counts: int) -> None:
        """Add to `boots`, `examples`, `byte_variants`, or any other count."""


class WorldFactory(Protocol):
    """Makes worlds in which nothing has happened."""

    def __call__(self, devices: Sequence[Device] | None = None) -> World:
        """Open a world on an empty disk; the world opened before it is closed."""


@pytest.fixture(scope="session")
def subject(pytestconfig: pytest.Config) -> Subject:
    """The implementation under test, as `--subject` names it."""
    return load_subject(pytestconfig.getoption("--subject"))


@pytest.fixture
def fresh_folder(pytestconfig: pytest.Config) -> Generator[Callable[[], Path]]:
    """Makes empty folders on the fastest file system there is; they go when the test ends."""
    home = Path(tempfile.mkdtemp(prefix="w", dir=pytestconfig.stash[SCRATCH]))

    def make() -> Path:
        return Path(tempfile.mkdtemp(prefix="d", dir=home))

    yield make
    remove_scratch(home)


@pytest.fixture
def world(subject: Subject, fresh_folder: Callable[[], Path]) -> Generator[World]:
    """A world in which nothing has happened."""
    with World(subject, fresh_folder()) as opened:
        yield opened


@pytest.fixture
def world_factory(subject: Subject, fresh_folder: Callable[[], Path]) -> Generator[WorldFactory]:
    """Makes fresh worlds, one at a time, for tests that run many examples."""
    with ExitStack() as current:

        def make(devices: Sequence[Device] | None = None) -> World:
            current.close()
            return current.enter_context(World(subject, fresh_folder(), devices))

        yield make


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Counts what the test tried; the report adds everything up."""
    counters = account_of(request.node).counters

    def add(**counts: int) -> None:
        counters.update(counts)

    return add
