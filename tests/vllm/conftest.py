# SPDX-License-Identifier: Apache-2.0
"""One process a session that has imported vLLM, and hosts for it to boot on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.real_host import Booter, RealHost

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from startup_plan.harness.subject import Subject


@pytest.fixture(scope="session")
def booter(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Generator[Booter]:
    """Boots the subject on the installed vLLM's worker."""
    with Booter(subject.name, tmp_path_factory.mktemp("vllm") / "errors") as running:
        yield running


@pytest.fixture
def host(booter: Booter, fresh_folder: Callable[[], Path]) -> RealHost:
    """A host on which nothing has happened."""
    return RealHost(booter, fresh_folder())
