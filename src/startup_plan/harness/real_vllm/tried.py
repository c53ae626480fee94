# SPDX-License-Identifier: Apache-2.0
"""On which releases of vLLM this harness has been tried."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("releases.toml")


def tried() -> tuple[str, ...]:
    """The releases, oldest first."""
    listed: list[str] = tomllib.loads(_FILE.read_text("utf-8"))["tried"]
    return tuple(listed)


def untried(version: str | None) -> str | None:
    """Say that an installed release was never tried, or None if it was, or if there is none."""
    if version is None or version.partition("+")[0] in tried():
        return None
    return f"vLLM {version} was never tried with this harness"
