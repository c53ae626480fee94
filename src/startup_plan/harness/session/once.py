# SPDX-License-Identifier: Apache-2.0
"""What takes minutes is done once a test run, also where xdist spreads a file over its workers.

A fixture of a module or a session is made once in each worker. Groups of xdist would prevent that,
but they have no effect under pytest 9.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def once(key: str, make: Callable[[], Any], factory: pytest.TempPathFactory) -> Any:
    """What `make` gives, as JSON has it; the first worker that asks makes it, the others wait.

    Args:
        key: what is made, the same in every worker, fit for a file's name.
        make: makes something that JSON can hold. If it raises, the next that asks tries again.
        factory: of the worker that asks.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return json.loads(json.dumps(make()))
    # The folder of this run, below which each worker has its own.
    folder = factory.getbasetemp().parent
    result = folder / f"{key}.json"
    with (folder / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            made = json.dumps(make())
            result.write_text(made, "utf-8")
        return json.loads(result.read_text("utf-8"))
