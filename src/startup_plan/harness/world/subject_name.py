# SPDX-License-Identifier: Apache-2.0
"""What names a subject: its own name, what stands below it, and what adapts it, in one string."""

from __future__ import annotations

import dataclasses
import os
import shlex
from typing import Self, final


@final
@dataclasses.dataclass(frozen=True, slots=True)
class SubjectName:
    """A name in its parts; `str` gives the one argument that every process is told.

    Attributes:
        name: `reference`, `vllm`, a dotted name, a file, or a wheel.
        on: what `vllm.v1.worker.startup_plan` means to it, named likewise; None for whatever is
            installed.
        adapter: the file that gives it vLLM's functions; None if it has them.
    """

    name: str
    on: str | None = None
    adapter: str | None = None

    def __str__(self) -> str:
        """As a person would type it; the name alone if there is no more to say."""
        if self.on is None and self.adapter is None and not _has_options(self.name):
            return self.name
        words = [self.name]
        for option, value in (("--on", self.on), ("--adapter", self.adapter)):
            words += [] if value is None else [option, value]
        return shlex.join(words)

    def anywhere(self) -> Self:
        """The same subject to a process in another folder: files by their full paths."""
        return dataclasses.replace(
            self,
            name=_full(self.name),
            on=None if self.on is None else _full(self.on),
            adapter=None if self.adapter is None else _full(self.adapter),
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The parts of what `str` gave; any other text is a name."""
        if not _has_options(text):
            return cls(text)
        try:
            name, *rest = shlex.split(text)
        except ValueError:
            return cls(text)
        given = dict(zip(rest[::2], rest[1::2], strict=False))
        found = cls(name, given.get("--on"), given.get("--adapter"))
        return found if str(found) == text else cls(text)


def _full(text: str) -> str:
    file, mark, member = text.partition("!")
    return f"{os.path.abspath(file)}{mark}{member}" if os.path.isfile(file) else text


def _has_options(text: str) -> bool:
    return " --on " in text or " --adapter " in text
