# SPDX-License-Identifier: Apache-2.0
"""What has to behave on the installed vLLM before its worker may judge anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.control import REFERENCE, Control

from .group_scenes import SHAPES
from .host import Booter, RealHost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

_ALONE: Final[Mapping[str, Mapping[str, Any]]] = {"one rank": {}}


def _worker(folder: Path) -> str:
    return _behaves(folder, _ALONE)


def _group(folder: Path) -> str:
    return _behaves(folder, SHAPES)


def _behaves(folder: Path, shapes: Mapping[str, Mapping[str, Any]]) -> str:
    with Booter(REFERENCE, folder / "errors") as booter:
        for number, (shape, parts) in enumerate(shapes.items()):
            root = folder / f"{number}"
            root.mkdir()
            if complaint := _complaint(RealHost(booter, root), parts):
                return f"vLLM {booter.version}, {shape}: {complaint}"
    return ""


def _complaint(host: RealHost, parts: Mapping[str, Any]) -> str:
    """Boot with the feature off, then twice with the reference; what was not as it must be."""
    plain = host.boot(host.order(**parts, enabled=False))
    if any(report.raised or report.hung for report in plain):
        return host.tale("no startup plan had a part in that")
    if not all(report.measured == report.kv and report.measured for report in plain):
        return host.tale("and measured no memory")
    first, second = (host.boot(host.order(**parts)) for _ in range(2))
    if any(report.raised or report.hung for report in (*first, *second)):
        return host.tale("that is the reference's, which keeps the contract")
    if not all(report.applied for report in second):
        return host.tale("and the reference did not apply what it had saved")
    return ""


WORKER: Final = Control("vllm", "worker", _worker)
"""One rank on vLLM's own worker."""

GROUP: Final = Control("vllm", "group", _group)
"""Groups of ranks on vLLM's own worker."""
