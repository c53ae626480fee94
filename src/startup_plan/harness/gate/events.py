# SPDX-License-Identifier: Apache-2.0
"""What a running suite tells the gate: one JSON line an event, in a file that only grows.

A file and not a pipe, because several processes write it (the one that collects, and the one that
hears every result), and because what was written before a crash must still be there after it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION: Final = "session"
"""The subject is loaded: `subject` and `environment`."""

REFUSED: Final = "refused"
"""The subject is not what was asked for: `sentence`."""

CATALOGUE: Final = "catalogue"
"""Collection is done: `tests`, a map of node id to requirement ids."""

STARTED: Final = "started"
"""A test begins: `nodeid`."""

FINISHED: Final = "finished"
"""A test is over: `record`, as written by `Record.to_json`."""

DIED: Final = "died"
"""The process that ran a test is gone: `nodeid` and `story`."""

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


@final
class EventWriter:
    """Appends events; each is one write, so that lines of several processes never mix."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        """Write to the file at `path`, made when the first event comes."""
        self._path = path

    def write(self, event: str, **values: Any) -> None:
        """Append an event."""
        line = json.dumps({"event": event, **values}) + "\n"
        descriptor = os.open(self._path, _APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


@final
class EventReader:
    """Follows a file of events while it grows."""

    __slots__ = ("_path", "_position")

    def __init__(self, path: Path) -> None:
        """Read the file at `path`, which need not exist yet."""
        self._path = path
        self._position = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Give the events that were completed since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.splitlines():
            event: dict[str, Any] = json.loads(line)
            yield event
