# SPDX-License-Identifier: Apache-2.0
"""A handler that hands on what is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable, Container


@final
class LoggedLines(logging.Handler):
    """Hands on lines that are logged through the standard library, as level and message.

    Args:
        keep: takes a line.
        ignored: modules, by the names of their files, whose lines are not handed on.
    """

    def __init__(self, keep: Callable[[str, str], None], ignored: Container[str] = ()) -> None:
        """Nothing was logged yet."""
        super().__init__()
        self._keep = keep
        self._ignored = ignored

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one line on."""
        if record.module not in self._ignored:
            self._keep(record.levelname.lower(), record.getMessage())
