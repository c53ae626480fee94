# SPDX-License-Identifier: Apache-2.0
"""Undoes, when a test ends, what its subject did to the process."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, final

import pytest

from startup_plan.support.process_group import no_process_left
from startup_plan.support.seal import Seal, settings_kept

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


@final
class Guard:
    """Hooks around every test that lets a subject into its process.

    Args:
        mutes: whether what tests print goes nowhere. pytest's own capture keeps it in files, which
            a subject may close, or flood.
    """

    def __init__(self, *, mutes: bool) -> None:
        """Nothing is guarded before all tests are collected."""
        self._mutes = mutes
        self._seal: Seal | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Take stock once everything is imported that will judge, and no subject is."""
        self._seal = Seal()

    def broken_seal(self) -> list[str]:
        """Name the functions that were replaced since the last call, and put them back."""
        return [] if self._seal is None else self._seal.broken()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let the test run, and put the process back."""
        if not _lets_a_subject_in(item):
            return (yield)
        with contextlib.ExitStack() as after:
            after.enter_context(settings_kept())
            # Real vLLM and real cards keep processes of the session, started when first needed.
            if not (item.get_closest_marker("vllm") or item.get_closest_marker("gpu")):
                after.enter_context(no_process_left())
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keep what is printed meanwhile from everybody."""
        with self._silence(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """As in the set-up."""
        with self._silence(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """As in the set-up."""
        with self._silence(item):
            return (yield)

    def _silence(self, item: pytest.Item) -> contextlib.AbstractContextManager[None]:
        # Phase by phase, because what reports between them needs the streams.
        mutes = self._mutes and _lets_a_subject_in(item)
        return _muted() if mutes else contextlib.nullcontext()


def _lets_a_subject_in(item: pytest.Item) -> bool:
    return item.get_closest_marker("requirement") is not None


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Let descriptors 1 and 2 and their streams lead nowhere."""
    saved = [(number, os.dup(number)) for number in (1, 2)]
    streams = sys.stdout, sys.stderr
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number, _ in saved:
            os.dup2(nowhere, number)
        sys.stdout, sys.stderr = (
            open(number, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            for number, _ in saved
        )
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for number, copy in saved:
            os.dup2(copy, number)
            os.close(copy)
        with contextlib.suppress(OSError):
            os.close(nowhere)
