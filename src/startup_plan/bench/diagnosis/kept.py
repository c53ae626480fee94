# SPDX-License-Identifier: Apache-2.0
"""What a benchmark has kept of each server, read back from its folder."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.bench.errors import RefusalError
from startup_plan.bench.results.record import NAME, SCHEMA
from startup_plan.bench.server.logs import Log, read_log

if TYPE_CHECKING:
    from pathlib import Path

_NEEDED: Final = {
    "runs": {"phase", "repeat", "folder", "launched"},
    "checks": {"name", "phase", "repeat", "verdict", "evidence"},
}
"""What must stand in the results for them to be diagnosed."""


@final
@dataclass(frozen=True, slots=True)
class KeptRun:
    """What is kept of one server.

    Args:
        name: phase and round, in words.
        phase: the phase.
        repeat: the round.
        launched: when, in seconds of the epoch.
        log_path: the file of its log.
        log: that log, read.
        environment: what it was launched with, less secrets.
        evidence: what it left in the caches, see `evidence.collect`.
    """

    name: str
    phase: str
    repeat: int
    launched: float
    log_path: Path
    log: Log
    environment: dict[str, str]
    evidence: dict[str, dict[str, Any]]

    def where(self, line: int) -> str:
        """Name a line of its log."""
        return f"runs/{self.repeat}-{self.phase}/server.log line {line}"


@final
@dataclass(frozen=True, slots=True)
class Cause:
    """Why something was not reused.

    Args:
        name: which of the known causes.
        run: the server it was seen in.
        facts: what shows it.
        remedy: what to do.
    """

    name: str
    run: str
    facts: tuple[str, ...]
    remedy: str


def load_results(folder: Path) -> dict[str, Any]:
    """Read `results.json`.

    Raises:
        RefusalError: `folder` holds no benchmark that can be read.
    """
    try:
        document: Any = json.loads((folder / NAME).read_bytes())
    except OSError as error:
        raise RefusalError(
            f"{folder}: holds no {NAME} ({error.strerror}); give the --output-dir of a benchmark"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"{folder / NAME}: no JSON ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise RefusalError(f"{folder / NAME}: not results of a benchmark with schema {SCHEMA}")
    for name, fields in _NEEDED.items():
        entries = document.get(name)
        if not isinstance(entries, list) or any(
            not isinstance(entry, dict) or not fields <= entry.keys() for entry in entries
        ):
            raise RefusalError(f"{folder / NAME}: damaged, its {name} are not all there")
    return document


def load_run(folder: Path, entry: dict[str, Any]) -> KeptRun | None:
    """Read what is kept of one server, given its entry in the results; None if it has no log."""
    here = folder / entry["folder"]
    path = here / "server.log"
    try:
        log = read_log(path)
    except OSError:
        return None  # it was never launched
    return KeptRun(
        name=f"{entry['phase']}, round {entry['repeat']}",
        phase=entry["phase"],
        repeat=entry["repeat"],
        launched=dt.datetime.fromisoformat(entry["launched"]).timestamp(),
        log_path=path,
        log=log,
        environment=_object(here / "environment.json"),
        evidence={"factors": {}, "tuned": {}, "sources": {}, **_object(here / "evidence.json")},
    )


def _object(path: Path) -> dict[str, Any]:
    try:
        document: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
