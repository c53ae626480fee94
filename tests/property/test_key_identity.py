# SPDX-License-Identifier: Apache-2.0
"""Who the worker is: its own device, and the software under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.world.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_DEVICES: Final[dict[str, tuple[Any, ...]]] = {
    "name": ("NVIDIA H100", "NVIDIA H200", "NVIDIA H200 NVL", "AMD Instinct MI300X", "Ascend 910B"),
    "total": (80 * GIB, 80 * GIB + 1, 80 * GIB - 1, 80 * GIB + MIB, 96 * GIB, 141 * GIB),
    "capability": ((9, 0), (9, 1), (8, 9), (1, 20), (12, 0), None),
}
_WORDS: Final = {"name": "name", "total": "total memory", "capability": "compute capability"}

_BUILDS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "torch": ("", "torch", ("2.13.0", "2.13.1", "2.13.0+cu129", "2.14.0a0+git0123abc")),
    "cuda": ("cuda", "cuda", ("13.0", "13.1", "12.9", "13.00")),
    "hip": ("hip", "hip", ("7.0.51831", "7.0.51832", "6.4.43482-0f2d60242")),
    "xpu": ("xpu", "xpu", ("20250300", "20250301", "20260000")),
    "npu": ("npu", "npu", ("2.7.1", "2.7.1.post1", "2.8.0rc1")),
    "musa": ("musa", "musa", ("2.1.0", "2.1.1")),
    "hpu": ("hpu", "hpu", ("1.22.0.740", "1.22.1.6", "1.23.0.695")),
    "tpu": ("tpu", "tpu", ("2.9.0", "2.9.1")),
    "torch-on-hip": ("hip", "torch", ("2.13.0", "2.13.1")),
}
"""Case -> the backend, that of the run where it is "", what is upgraded, and its versions."""


def _engine(device: int = 0) -> Engine:
    engine = Engine(placement=(device,))
    engine.hash_override = keys.SAME_HASH
    return engine


@pytest.mark.requirement("KEY-03")
@pytest.mark.parametrize("trait", list(_DEVICES))
def test_each_trait_of_the_device_moves_the_key_alone(
    world: World, tally: Tally, trait: str
) -> None:
    """Devices that differ in name, in total memory or in capability alone give other keys."""
    if lacking := keys.lacks_trait(world, trait):
        pytest.skip(lacking)
    found = []
    for value in _DEVICES[trait]:
        setattr(world.devices[0], trait, value)
        found.append((str(value), keys.sure_key(world, _engine())))
    tally(boots=len(found))
    same = keys.twins(found)

    if same is not None:
        first, second, key = same
        raise Violation(
            "KEY-03",
            f"a device whose {_WORDS[trait]} is {first} was replaced by one whose "
            f"{_WORDS[trait]} is {second}; both boots look for plan {key}",
        )


def _mixed_host(world: World) -> None:
    world.devices[:] = [
        Device("NVIDIA A100", 40 * GIB, (8, 0)),
        Device("NVIDIA H100", 80 * GIB, (9, 0)),
    ]


def _key_after(world: World, device: int, trait: str, changed: int) -> str:
    """The key of a worker on `device` of the mixed host, where device `changed` is another."""
    _mixed_host(world)
    setattr(world.devices[changed], trait, _DEVICES[trait][-1])
    return keys.sure_key(world, _engine(device))


@pytest.mark.requirement("KEY-04")
@pytest.mark.parametrize("trait", list(_DEVICES))
def test_the_own_device_counts(world: World, tally: Tally, trait: str) -> None:
    """What tells devices apart on device 0 tells them apart for a worker on device 1 as well."""
    if lacking := keys.lacks_trait(world, trait, each=True):
        pytest.skip(lacking)
    _mixed_host(world)
    usual = [keys.sure_key(world, _engine(device)) for device in (0, 1)]
    after = [_key_after(world, device, trait, device) for device in (0, 1)]
    tally(boots=4)
    if after[0] == usual[0]:
        pytest.skip(f"the {_WORDS[trait]} of a device is not in the key at all, see KEY-03")

    if after[1] == usual[1]:
        raise Violation(
            "KEY-04",
            f"a worker runs on device 1 of a host with two kinds of devices; device 1 gets another "
            f"{_WORDS[trait]}, and the worker still looks for plan {usual[1]}; "
            f"on device 0 it would not",
        )


@pytest.mark.requirement("KEY-04")
@pytest.mark.parametrize("trait", list(_DEVICES))
def test_the_devices_of_others_do_not_count(world: World, tally: Tally, trait: str) -> None:
    """Device 0 may be replaced without any change for a worker on device 1."""
    if lacking := keys.lacks_trait(world, trait, each=True):
        pytest.skip(lacking)
    _mixed_host(world)
    usual = keys.sure_key(world, _engine(1))
    after = _key_after(world, 1, trait, 0)
    tally(boots=2)

    if after != usual:
        raise Violation(
            "KEY-04",
            f"a worker on device 1 saved plan {usual}; device 0, on which it does not run, gets "
            f"another {_WORDS[trait]}; the worker now looks for plan {after}",
        )


def _keys_of_versions(world: World, name: str, versions: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for version in versions:
        setattr(world.runtime, name, version)
        found.append((version, keys.sure_key(world, _engine())))
    return found


@pytest.mark.requirement("KEY-05")
@pytest.mark.parametrize("case", list(_BUILDS))
def test_torch_and_the_accelerator_runtime_move_the_key(
    world: World, tally: Tally, case: str
) -> None:
    """Another torch, or another version of any accelerator's runtime, each alone: another key."""
    backend, name, versions = _BUILDS[case]
    if backend:
        world.become(backend)
        first, result = keys.look(world, _engine())
        if first is None and any(world.runtime.backend.refuses(q) for q, _ in result.queries):
            pytest.skip(f"it asks what the platform of {backend} does not answer, and has no plan")
    found = _keys_of_versions(world, name, versions)
    tally(boots=len(found))
    same = keys.twins(found)

    if same is not None:
        first, second, key = same
        empty = "" if world.runtime.cuda else ", torch.version.cuda is empty"
        package = world.runtime.backend.package if name == backend else ""
        called = package or ("torch" if name == "torch" else f"torch.version.{name}")
        raise Violation(
            "KEY-05",
            f"{called} was upgraded from {first} to {second}{empty}; "
            f"both boots look for plan {key}",
        )


@pytest.mark.requirement("KEY-06")
def test_the_vllm_version_moves_the_key(world: World, tally: Tally) -> None:
    """Another vLLM gives another key, even where its config hash is the same."""
    versions = ("0.33.0", "0.33.1", "0.33.0rc1", "0.34.0.dev7+g0123abc")
    found = _keys_of_versions(world, "vllm", versions)
    tally(boots=len(found))
    same = keys.twins(found)

    if same is not None:
        first, second, key = same
        raise Violation(
            "KEY-06",
            f"vLLM was upgraded from {first} to {second}, compute_hash() stayed {keys.SAME_HASH}; "
            f"both boots look for plan {key}",
        )
