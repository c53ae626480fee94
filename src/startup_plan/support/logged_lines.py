# SPDX-License-Identifier: Apache-2.0
"""A handler that keeps what is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable, Container


@final
class LoggedLines(logging.Handler):
    """Keeps lines that are logged through the standard library, as (level, message).

    Args:
        log: gives the list that is appended to, which may be another at each line.
        ignored: modules, by the names of their files, whose lines are not kept.
    """

    def __init__(
        self, log: Callable[[], list[tuple[str, str]]], ignored: Container[str] = ()
    ) -> None:
        """Nothing is kept yet."""
        super().__init__()
        self._log = log
        self._ignored = ignored

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        if record.module not in self._ignored:
            self._log().append((record.levelname.lower(), record.getMessage()))
