# SPDX-License-Identifier: Apache-2.0
"""Where plans lie and what their files are called (KEY-15)."""

from __future__ import annotations

import os
from typing import Final

FOLDER: Final = "startup_plan"
"""Below the cache root."""

_PREFIX: Final = "startup_plan_"
_SUFFIX: Final = ".json"


def is_plan(name: str) -> bool:
    """Whether a file of this name can be a plan."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def key_of(path: str) -> str:
    """The key of the plan at `path`, as the name of its file gives it."""
    return os.path.basename(path).removeprefix(_PREFIX).removesuffix(_SUFFIX)


def plan_folder(root: str) -> str:
    """The folder of the plans below a cache root."""
    return os.path.join(root, FOLDER)


def names_in(folder: str) -> list[str]:
    """Names of everything in a folder, sorted; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def plans_below(root: str) -> list[str]:
    """Paths of the plan files below a cache root, sorted."""
    folder = plan_folder(root)
    return [os.path.join(folder, name) for name in names_in(folder) if is_plan(name)]
