# SPDX-License-Identifier: Apache-2.0
"""Variables that vLLM does not register: which take device memory, and which say nothing of it.

The lists with their reasons and sources are in `environment.toml`. They are two lists and not one
rule, so that what stands in neither, where nobody can argue either way, is not judged.
"""

from __future__ import annotations

import dataclasses
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from startup_plan.harness.world.engine import Engine

CONNECTOR: Final = "kv_transfer_config.kv_connector"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Takes:
    """One variable that changes the memory of a device while something is loaded (KEY-11).

    Attributes:
        name: its name.
        texts: values that do not take the same.
        connector: the connector that reads it, "" where it is no connector's.
        beside: other variables under which it is read.
        backend: the accelerator under which it is read, "" where it is read under any.
        why: what it does to memory.
        source: where that can be read.
    """

    name: str
    texts: tuple[str, ...]
    connector: str
    beside: Mapping[str, str]
    backend: str
    why: str
    source: str

    def put(self, engine: Engine, text: str) -> None:
        """Load what reads it into `engine`, and give it a value; physics, made up, follows.

        Never unset: a key may know which value that stands for.
        """
        if self.connector:
            engine.set(CONNECTOR, self.connector)
        engine.environ |= self.beside
        engine.setenv(self.name, text)
        engine.moved[self.name] = self.texts.index(text) * GIB


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """What one writer puts into a process anew at each start (KEY-13).

    Attributes:
        writer: who.
        variables: name -> its values at two starts.
        source: where that can be read.
    """

    writer: str
    variables: Mapping[str, tuple[str, str]]
    source: str

    def environ(self, number: int) -> dict[str, str]:
        """The variables as the first or the second start (0 or 1) has them."""
        return {name: texts[number] for name, texts in self.variables.items()}


def _load() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("environment.toml").read_text("utf-8")
    return tomllib.loads(text)


_DATA: Final = _load()

TAKES: Final = tuple(
    Takes(
        name,
        tuple(texts),
        row.get("connector", ""),
        row.get("beside", {}),
        row.get("backend", ""),
        row["why"],
        row["source"],
    )
    for row in _DATA["takes"]
    for name, texts in row["variables"].items()
)

STARTS: Final = tuple(
    Start(
        row["writer"],
        {name: (first, second) for name, (first, second) in row["variables"].items()},
        row["source"],
    )
    for row in _DATA["start"]
)
