# SPDX-License-Identifier: Apache-2.0
"""Persistence models, and names for the states that a power loss may leave."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

Tree = dict[str, "bytes | None"]
"""Relative path -> contents of a file, or None for a folder."""

_ID: Final = re.compile(
    r"crash\[(?P<workload>[a-z-]+),k=(?P<k>\d+|returned),dir=(?P<names>\w+),"
    r"data=(?P<data>[\w:+-]+),(?P<model>[\w-]+)\]"
)


class Model(NamedTuple):
    """A persistence model; see `persistence_models.toml` for what the switches mean."""

    name: str
    title: str
    names_in_order: bool
    sync_settles_names: bool
    replace_settles_data: bool
    halves: bool


def load_models() -> dict[str, Model]:
    """The persistence models by name."""
    path = Path(__file__).with_name("persistence_models.toml")
    tables = tomllib.loads(path.read_text("utf-8"))
    return {name: Model(name=name, **table) for name, table in tables.items()}


MODELS: Final = load_models()


class StateId(NamedTuple):
    """A state of the disk, reproducible alone.

    Attributes:
        workload: the history.
        k: how many of its operations had been done, or "returned" once all had and the call with
            them.
        names: which changes of names had survived: a count, or bits, lowest first.
        data: what had survived of each file whose data was not settled, in order of creation.
        model: the persistence model that allows it.
    """

    workload: str
    k: str
    names: str
    data: str
    model: str

    def __str__(self) -> str:
        """The spelling that `--state` takes."""
        return f"crash[{self.workload},k={self.k},dir={self.names},data={self.data},{self.model}]"


def parse_state(text: str) -> StateId | None:
    """The state that `text` spells, None if it spells none."""
    match = _ID.fullmatch(text)
    if match is None:
        return None
    return StateId(match["workload"], match["k"], match["names"], match["data"], match["model"])
