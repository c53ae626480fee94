# SPDX-License-Identifier: Apache-2.0
"""How much device memory a simulated rank really takes. All figures are bytes.

This is the oracle's half of the world: it knows every input that moves memory and nothing about
keys. The sizes are made up, and chosen so that each input that moves memory at all moves more than
the worker's safety buffer: a factor that is missing from a key then ends in an out-of-memory error.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from startup_plan.harness.stubs.backends import backend_of
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.stubs.worker import Footprint

if TYPE_CHECKING:
    from startup_plan.harness.stubs.state import Runtime

    from .engine import Engine

_USUAL: Final = backend_of("cuda")
_STEP: Final = 2 * MIB
_WEIGHTS: Final = 14 * GIB
_NON_TORCH: Final = GIB
_ACTIVATIONS: Final = 12 * GIB
_LEAST: Final = 512 * MIB
_GRAPHS: Final = GIB


def footprint(engine: Engine, rank: int, traits: tuple[object, ...], runtime: Runtime) -> Footprint:
    """What a rank takes: a pure function of its inputs.

    Args:
        engine: what boots.
        rank: which rank.
        traits: name, total memory and compute capability of its device.
        runtime: the software under it.
    """
    name, _, capability = traits
    if name == runtime.backend.product:
        # Scenes are sized for the usual host; that of another backend weighs as much.
        name, capability = _USUAL.product, capability or (9, 0)
    moved = sum(engine.moved.values())
    persistent = _NON_TORCH + _versions(runtime) + _spread(name, capability)
    # Uneven layers and experts: ranks and replicas of one engine do not take the same.
    uneven = rank * 256 * MIB + engine.replica * 384 * MIB
    share = _WEIGHTS // engine.world_size
    return Footprint(
        weights=share + uneven + engine.heavier_weights,
        persistent=persistent + (engine.world_size - 1) * 320 * MIB,
        activations=max(_LEAST, _ACTIVATIONS + moved),
        graphs=_GRAPHS,
    )


_known_versions: dict[tuple[str | None, ...], int] = {}


def _versions(runtime: Runtime) -> int:
    versions = runtime.versions()
    found = _known_versions.get(versions)
    if found is None:
        backend = runtime.backend
        as_usual = getattr(runtime, backend.name) == backend.release
        told = (*versions[:2], _USUAL.release, *[None] * 6) if as_usual else versions
        found = _known_versions[versions] = _spread(*told)
    return found


def _spread(*inputs: object) -> int:
    """A size between 0 and 2 GiB that differs by at least 256 MiB for most different inputs."""
    return zlib.crc32(repr(inputs).encode()) % 8 * (256 * MIB) // _STEP * _STEP
