# SPDX-License-Identifier: Apache-2.0
"""The script that says what a requirement lacks, and what it sees in this checkout."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

import pytest

_SCRIPT: Final = Path(__file__).parents[3] / "scripts" / "new_requirement.py"


@pytest.fixture(scope="session")
def script() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("new_requirement", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["new_requirement"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def house(script: Any) -> Any:
    """This checkout, its suite collected once for all tests."""
    return script.look()
