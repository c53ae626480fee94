# SPDX-License-Identifier: Apache-2.0
"""What is put back after somebody else's code, and what is named."""

from __future__ import annotations

import gc
import io
import json
import locale
import os
import signal
import sys
from typing import TYPE_CHECKING

from startup_plan.support.seal import Seal, settings_kept

if TYPE_CHECKING:
    from pathlib import Path


def _settings() -> tuple[object, ...]:
    umask = os.umask(0o022)
    os.umask(umask)
    return (
        os.getcwd(), os.environ.copy(), umask, sys.getrecursionlimit(), gc.isenabled(),
        locale.setlocale(locale.LC_ALL), sys.stdout, signal.getsignal(signal.SIGUSR1),
    )  # fmt: skip


def test_every_setting_is_put_back(tmp_path: Path) -> None:
    """Whatever a process has of its own is as it was when the block ends."""
    before = _settings()
    with settings_kept():
        os.chdir(tmp_path)
        os.environ["SOMEBODY_ELSE"] = os.environ.pop("PATH")
        os.umask(0o077)
        sys.setrecursionlimit(900)
        gc.disable()
        other = "C" if locale.setlocale(locale.LC_NUMERIC) != "C" else "C.UTF-8"
        locale.setlocale(locale.LC_NUMERIC, other)
        sys.stdout = io.StringIO()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        within = _settings()

    assert [old == new for old, new in zip(before, within, strict=True)] == [False] * len(before)
    assert _settings() == before


def test_a_replaced_function_is_named_once_and_put_back() -> None:
    """What stands in the place of a function is named, and the function is back afterwards."""
    seal, dumps = Seal(), json.dumps
    json.dumps = lambda *_, **__: "{}"
    found = (seal.broken(), seal.broken())

    assert (found, json.dumps) == ((["json.dumps"], []), dumps)
