# SPDX-License-Identifier: Apache-2.0
"""Where the suite lies that judges: inside the installed package, or in the checkout around it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDERS: Final = ("tests/property", "tests/faults", "tests/gpu", "tests/vllm")
"""What judges subjects; the other tests are the project's own."""


class NoSuiteError(Exception):
    """There is no suite; one sentence says what to do."""


def find_suite() -> Path:
    """Find the folder that holds `pyproject.toml`, `conftest.py` and `tests`.

    Raises:
        NoSuiteError: it is in neither place.
    """
    package = Path(__file__).parents[2]
    for folder in (package / "_suite", package.parents[1]):
        if (folder / "pyproject.toml").is_file() and (folder / FOLDERS[0]).is_dir():
            return folder
    raise NoSuiteError(
        f"the suite is missing from {package}: install startup-plan again, "
        "from a wheel or from a checkout"
    )
