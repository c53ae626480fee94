# SPDX-License-Identifier: Apache-2.0
"""What takes seconds of real vLLM, once a session: a process that boots, and the census."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.census import classification
from startup_plan.harness.census import judge as census
from startup_plan.harness.real_vllm.host import Booter, RealHost, RealVllmError
from startup_plan.harness.session.machine import environment
from startup_plan.harness.session.once import once
from startup_plan.harness.session.witness import lacking

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from startup_plan.harness.census.judge import Census
    from startup_plan.harness.world.subject import Subject


@pytest.fixture(scope="session")
def booter(
    subject: Subject, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Booter]:
    """Boots the subject on the installed vLLM's worker."""
    try:
        running = Booter(subject.name, tmp_path_factory.mktemp("vllm") / "errors")
    except RealVllmError as error:
        lacking(pytestconfig, "vllm", str(error))
    with running:
        yield running


@pytest.fixture(scope="session")
def audited() -> None:
    """Skips what compares tables of ours with vLLM, on a release of which they are not."""
    tables, installed = classification.load(), environment()["vllm"]
    if str(installed).partition("+")[0] not in {tables.oldest, tables.newest}:
        pytest.skip(f"the tables are of vLLM {tables.oldest} and {tables.newest}, not {installed}")


@pytest.fixture(scope="session")
def census_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Census]:
    """Takes the census with the key of a subject; the look at vLLM is shared by all workers."""

    @functools.cache
    def take(subject: str) -> Census:
        key = f"census-{hashlib.sha256(subject.encode()).hexdigest()[:12]}"
        seen = once(key, functools.partial(census.look, subject), tmp_path_factory)
        return census.judge(seen, classification.load())

    return take


@pytest.fixture
def host(booter: Booter, fresh_folder: Callable[[], Path]) -> RealHost:
    """A host on which nothing has happened."""
    return RealHost(booter, fresh_folder())
