# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in the caches that can explain, later, why the next run did not reuse it.

Caches change from run to run, so what matters is noted down after each one: the factors behind a
compile key, the choices that tuning made, and the contents of the traced source files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FACTORS: Final = "cache_key_factors.json"
TUNED: Final = ".best_config"
NO_FILE: Final = "no file"
_LARGEST: Final = 4 << 20


def collect(root: Path, traced: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Note what lies in the caches below `root`, and the state of the traced files.

    Returns:
        `factors` and `tuned`: path below `root` to the document; `sources`: path of a file to its
        `sha256`, which is `no file` for a pseudo-file and for one that is gone, and to when it was
        `modified`, in seconds of the epoch.
    """
    factors: dict[str, Any] = {}
    tuned: dict[str, Any] = {}
    for path, below in _files(root):
        if os.path.basename(below) == FACTORS:
            factors[below] = _document(path)
        elif below.endswith(TUNED):
            tuned[below] = _document(path)
    sources = {name: _state(name) for name in sorted(set(traced))}
    return {"factors": factors, "tuned": tuned, "sources": sources}


def is_pseudo_file(name: str) -> bool:
    """Whether a traced "file" is none: `<string>`, `<frozen os>`."""
    return name.startswith("<")


def _files(root: Path) -> Iterator[tuple[str, str]]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name == FACTORS or name.endswith(TUNED):
                path = os.path.join(folder, name)
                yield path, os.path.relpath(path, root)


def _document(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None


def _state(name: str) -> dict[str, Any]:
    if not is_pseudo_file(name):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"sha256": digest, "modified": os.fstat(file.fileno()).st_mtime}
    return {"sha256": NO_FILE, "modified": None}
