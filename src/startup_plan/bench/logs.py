# SPDX-License-Identifier: Apache-2.0
"""Reads a server's log: which line says what, and when it came.

The lines are listed in `log_lines.toml`, each with the file of vLLM that writes it.
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# `(Worker_TP0 pid=17) INFO 11-29 18:57:04 [file.py:68] message`: vllm/logger.py.
_PREFIX: Final = re.compile(
    r".{0,80}?(?:\((?P<process>[^()]+ pid=\d+)\) )?"
    r"[A-Z]+ (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]+\] ?"
    r"|\((?P<bare>[^()]+ pid=\d+)\) "
)
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_LONGEST: Final = 4096
_TAIL: Final = 40


@final
@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log.

    Args:
        number: counted from 1.
        at: seconds from the launch until it was seen, or None when read afterwards.
        process: what vLLM says of the process, `Worker_TP0 pid=17`, or nothing.
        message: the rest, without vLLM's prefix.
    """

    number: int
    at: float | None
    process: str
    message: str


@final
@dataclass(frozen=True, slots=True)
class Event:
    """A line that says something that the benchmark knows about.

    Args:
        kind: its table in `log_lines.toml`.
        line: where it stands.
        values: what the pattern took out of it.
    """

    kind: str
    line: Line
    values: dict[str, str]

    @property
    def seconds(self) -> float | None:
        """The number of seconds that the line states."""
        return float(self.values["seconds"]) if "seconds" in self.values else None

    def value(self, *names: str) -> str:
        """Give the first of these values that the line has, or nothing."""
        return next((self.values[name] for name in names if name in self.values), "")


@final
@dataclass(slots=True)
class Log:
    """What a log says so far."""

    events: list[Event] = field(default_factory=list)
    traced: dict[str, list[str]] = field(default_factory=dict)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))
    lines: int = 0
    _rest: bytes = b""
    _tracing: str | None = None

    def feed(self, data: bytes, at: float | None = None) -> None:
        """Take in what has been written since the last time."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > 1 << 20:
            # Nobody writes such a line to be read; do not keep all of it in memory.
            self._rest = self._rest[:_LONGEST]
        for raw in whole:
            self._take(raw, at)

    def finish(self, at: float | None = None) -> None:
        """Take in a last line that has no end."""
        if self._rest:
            self.feed(b"\n", at)

    def having(self, *kinds: str) -> list[Event]:
        """Give the events of these kinds, in the order of the log."""
        return [event for event in self.events if event.kind in kinds]

    def first(self, *kinds: str) -> Event | None:
        """Give the first event of these kinds."""
        return next(iter(self.having(*kinds)), None)

    def last(self, *kinds: str) -> Event | None:
        """Give the last event of these kinds."""
        return next(reversed(self.having(*kinds)), None)

    def _take(self, raw: bytes, at: float | None) -> None:
        self.lines += 1
        line = split_line(raw, self.lines, at)
        self.tail.append(clean(raw))
        for kind, pattern in _patterns().items():
            match = pattern.search(line.message)
            if match is not None:
                values = {name: text for name, text in match.groupdict().items() if text}
                self.events.append(Event(kind, line, values))
                self._tracing = line.process if kind == "traced-files" else None
                return
        if self._tracing == line.process and line.message[:1] in {"/", "<"}:
            self.traced.setdefault(line.process, []).append(line.message)
        else:
            self._tracing = None


def read_log(path: Path) -> Log:
    """Read a whole log from its file.

    Raises:
        OSError: it cannot be read.
    """
    log = Log()
    for block in _blocks(path):
        log.feed(block)
    log.finish()
    return log


def lines_of(path: Path) -> Iterator[Line]:
    """Give every line of a log's file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            yield split_line(raw.rstrip(b"\n"), number, None)


def split_line(raw: bytes, number: int, at: float | None) -> Line:
    """Tell vLLM's prefix from the message."""
    text = clean(raw)
    match = _PREFIX.match(text)
    if match is None:
        return Line(number, at, "", text)
    return Line(number, at, match["process"] or match["bare"] or "", text[match.end() :])


def clean(raw: bytes) -> str:
    """Give a line as text: no colours, no carriage return, at most a few thousand characters."""
    return _COLOUR.sub("", raw[:_LONGEST].decode(errors="replace")).rstrip("\r\n")


def known_kinds() -> Iterable[str]:
    """Give the kinds of lines that are known."""
    return _patterns().keys()


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    text = files("startup_plan.bench").joinpath("log_lines.toml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = tomllib.loads(text)
    return {kind: re.compile(table["pattern"]) for kind, table in tables.items()}


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def tracebacks(path: Path) -> Iterator[tuple[Line, list[str]]]:
    """Give each traceback of a log: its first line, and its text without vLLM's prefixes.

    Raises:
        OSError: the log cannot be read.
    """
    running: dict[str, tuple[Line, list[str]]] = {}
    for line in lines_of(path):
        if line.message.startswith("Traceback (most recent call last)"):
            running[line.process] = (line, [line.message])
        elif line.process in running:
            first, text = running[line.process]
            text.append(line.message)
            # Frames are indented; the first line that is not is the exception itself.
            if line.message[:1].strip():
                yield first, text
                del running[line.process]
