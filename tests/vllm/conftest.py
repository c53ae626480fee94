# SPDX-License-Identifier: Apache-2.0
"""One process a session that has imported vLLM, and hosts for it to boot on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.real_host import Booter, RealHost, RealVllmError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from startup_plan.harness.subject import Subject


@pytest.fixture(scope="session")
def booter(
    subject: Subject, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Booter]:
    """Boots the subject on the installed vLLM's worker."""
    try:
        running = Booter(subject.name, tmp_path_factory.mktemp("vllm") / "errors")
    except RealVllmError as error:
        if "vllm" in pytestconfig.getoption("--require").split(","):
            pytest.fail(f"required capability vllm: {error}", pytrace=False)
        pytest.skip(f"capability vllm: {error}")
    with running:
        yield running


@pytest.fixture
def host(booter: Booter, fresh_folder: Callable[[], Path]) -> RealHost:
    """A host on which nothing has happened."""
    return RealHost(booter, fresh_folder())
