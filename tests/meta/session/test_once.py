# SPDX-License-Identifier: Apache-2.0
"""What is made once a run is made by one worker, and the same for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.harness.session.once import once

if TYPE_CHECKING:
    from pathlib import Path


class Worker:
    """Stands in for a worker's factory of folders."""

    def __init__(self, folder: Path) -> None:
        """Its own folder lies below that of the run."""
        self._folder = folder

    def getbasetemp(self) -> Path:
        """The worker's own folder."""
        return self._folder


def _ask(worker: Any, made: list[int]) -> Any:
    def make() -> dict[str, tuple[int]]:
        made.append(1)
        return {"made": (len(made),)}

    return once("thing", make, worker)


def test_workers_share_what_the_first_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second worker has what the first made, and makes nothing itself."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    made: list[int] = []
    workers = [Worker(tmp_path / "gw0"), Worker(tmp_path / "gw1")]

    assert [_ask(worker, made) for worker in workers] == [{"made": [1]}, {"made": [1]}]
    assert made == [1]


def test_alone_everything_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without workers nothing is kept: the next run must not see it."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    made: list[int] = []
    worker = Worker(tmp_path / "alone")

    assert [_ask(worker, made) for _ in range(2)] == [{"made": [1]}, {"made": [2]}]
    assert list(tmp_path.iterdir()) == []


def test_failure_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the first worker fails, the next one tries for itself."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    worker: Any = Worker(tmp_path / "gw0")
    with pytest.raises(ZeroDivisionError):
        once("thing", lambda: 1 // 0, worker)

    assert _ask(worker, []) == {"made": [1]}
