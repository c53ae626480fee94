# SPDX-License-Identifier: Apache-2.0
"""The reports on vLLM's releases that ship inside the package, to compare with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "releases"
"""Holds, for each release, `NAME.json`, a report, and `NAME.gaps`, its known-gaps file."""

SAME: Final = FOLDER / "same.json"
"""The names of releases with one module and workers that show the same of it -> the one judged."""

_RELEASE: Final = re.compile(r"vllm-\d[\w.+]*")


class NoReleaseError(Exception):
    """There is no report on a release; the message is one sentence that lists what there is."""


def names() -> tuple[str, ...]:
    """Give the releases that there is a report on."""
    return tuple(sorted(_judged()))


def _judged() -> dict[str, str]:
    """Release -> the one whose files it has, which is mostly itself."""
    same: dict[str, str] = json.loads(SAME.read_text("utf-8"))
    return {file.stem: file.stem for file in FOLDER.glob("vllm-*.json")} | same


def report_of(name: str) -> Path | None:
    """Give the report on a release, None for what is no name of a release.

    Raises:
        NoReleaseError: there is none on that release.
    """
    return _file(name, ".json")


def gaps_of(name: str) -> Path | None:
    """Give the known-gaps file of a release; as `report_of`."""
    return _file(name, ".gaps")


def _file(name: str, ending: str) -> Path | None:
    if not _RELEASE.fullmatch(name) or name.endswith((".json", ".whl", ".py")):
        return None
    judged = _judged()
    if name not in judged:
        raise NoReleaseError(
            f"no report on {name} comes with this startup-plan (there is one on "
            f"{', '.join(sorted(judged))}): give a wheel or a report of its own"
        )
    return FOLDER / f"{judged[name]}{ending}"
