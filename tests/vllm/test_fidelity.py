# SPDX-License-Identifier: Apache-2.0
"""The stubs and real vLLM, seen by one and the same module, have the same to offer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from startup_plan.harness.real_vllm.host import Booter, RealHost
from startup_plan.harness.stubs import attributes, vllm_module
from startup_plan.harness.stubs.settings import SETTINGS
from startup_plan.harness.world.engine import Engine
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures("audited")]

INSPECTOR: Final = str(Path(__file__).with_name("inspector.py"))
UTILIZATION: Final = "cache_config.gpu_memory_utilization"


class Seen(NamedTuple):
    """What the inspector says of both sides: the name of a look, and what it saw."""

    stub: dict[str, Any]
    real: dict[str, Any]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One boot of the inspector on the stubs, and one on vLLM's own worker."""
    folder = tmp_path_factory.mktemp("fidelity")
    with World(load_subject(INSPECTOR), folder / "stub") as world:
        stub = world.boot(Engine()).lines
    with Booter(INSPECTOR, folder / "errors") as booter:
        host = RealHost(booter, folder / "real")
        (report,) = host.boot(host.order(settings={UTILIZATION: 0.5}))
    assert not report.raised, report.raised
    return Seen(_joined(stub), _joined(report.lines))


def _joined(lines: Iterable[str]) -> dict[str, Any]:
    """What was seen, look by look, out of the inspector's lines among others."""
    texts: dict[str, str] = {}
    for name, part in (json.loads(line) for line in lines if line.startswith('["')):
        texts[name] = texts.get(name, "") + part
    return {name: json.loads(text) for name, text in texts.items()}


def test_every_name_has_a_home(seen: Seen) -> None:
    """Every name to which the stubs give a meaning exists in vLLM, where the inspector looks."""
    missing = sorted(name for name, there in seen.real["names"].items() if not there)
    unlisted = sorted(vllm_module.PROVIDERS.keys() - seen.real["names"].keys())

    assert (missing, unlisted) == ([], [])


def test_every_attribute_is_given_or_known(seen: Seen) -> None:
    """What vLLM's worker and configurations have, the stubs have, or know as beyond them."""
    stub, known = seen.stub["attributes"], attributes.names()
    beyond = {
        name: set(found) - set(stub.get(name, ())) - known[name]
        for name, found in seen.real["attributes"].items()
    }

    assert {name: found for name, found in beyond.items() if found} == {}
    assert {"Worker", "ModelConfig", "ParallelConfig"} <= beyond.keys()


@pytest.mark.parametrize("look", ["platform", "logger", "helpers", "runner"])
def test_the_same_is_offered(seen: Seen, look: str) -> None:
    """Parameters and defaults of platform queries, methods of a logger, helpers: all equal."""
    assert seen.stub[look] == seen.real[look]


@pytest.mark.parametrize(
    "part", ["name", "total", "capability", "parts", "cuda", "kind", "through", "absent"]
)
def test_the_same_is_answered(seen: Seen, part: str) -> None:
    """A device has the same name, memory and capability on both sides, in the same types."""
    assert seen.stub["answers"][part] == seen.real["answers"][part]


def test_a_snapshot_has_the_same_fields(seen: Seen) -> None:
    """Fields, defaults and types of a memory snapshot are vLLM's."""
    stub, real = seen.stub["snapshot"], seen.real["snapshot"]
    # Real ones may say more; what the stub says must be so.
    fields = [field for field in real["fields"] if field in stub["fields"]]
    types = {name: real["types"].get(name) for name in stub["types"] if name != "device"}
    told = {name: kind for name, kind in stub["types"].items() if name != "device"}

    assert (fields, types) == (stub["fields"], told)
    assert (stub["class"], stub["device"]) == (real["class"], real["device"])


def test_a_worker_has_the_same_attributes(seen: Seen) -> None:
    """Every attribute of the simulated worker is one of vLLM's worker, of the same type."""
    stub, real = seen.stub["worker"], seen.real["worker"]
    # Sections that the tiny model has no use for are None there; devices and runners are stand-ins.
    stand_ins = {"device", "model_runner"}
    different = {
        name: (kind, real.get(name))
        for name, kind in stub.items()
        if name not in stand_ins and real.get(name) not in {kind, "NoneType"}
    }

    assert (different, stand_ins - real.keys()) == ({}, set())


def test_the_environment_is_read_alike(seen: Seen) -> None:
    """The flag, the cache root and unknown names behave alike; the lists differ by version."""
    stub, real = seen.stub["environment"], seen.real["environment"]
    parts = ("root", "flag", "is_set", "unknown")

    assert [stub[part] for part in parts] == [real[part] for part in parts]
    assert len(set(stub["registered"]) & set(real["registered"])) > 250


@pytest.mark.parametrize("part", ["version", "device", "worker", "accelerator", "cuda"])
def test_torch_looks_alike(seen: Seen, part: str) -> None:
    """Versions are strings, devices have a type and an index, queries have torch's names."""
    assert seen.stub["torch"][part] == seen.real["torch"][part]


@pytest.mark.parametrize("part", ["class", "hash", "explicit", "same", "world", "types"])
def test_a_configuration_looks_alike(seen: Seen, part: str) -> None:
    """Sections of the configuration are those that the worker holds, in vLLM's own types."""
    assert seen.stub["config"][part] == seen.real["config"][part]


_CHOICES: Final = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "literal_error",
    "value_error",
}
"""Why vLLM refuses a value of the right type: bounds and choices, which the table leaves out."""


def _differences(stub: dict[str, Any], real: dict[str, Any], fields: set[str]) -> list[str]:
    """Where the two make something else of what a field is constructed with."""
    return [
        f"{name}: {ours} here, {theirs} in vLLM"
        for name in sorted(fields & stub.keys() & real.keys())
        for ours, theirs in zip(stub[name], real[name], strict=True)
        if ours[0] != theirs[0] or (ours[0] != "refused" and ours != theirs)
        if theirs[0] != "refused" or not set(theirs[1:]) <= _CHOICES
    ]


def test_a_value_is_coerced_alike(seen: Seen) -> None:
    """Every field that the table has words for makes of numbers, texts and lists what vLLM does."""
    stub, real = seen.stub["coercion"], seen.real["coercion"]
    told = {f"{setting.owner}.{setting.field}" for setting in SETTINGS if setting.takes}

    assert _differences(stub, real, told) == []
    assert len(told & stub.keys() & real.keys()) > 400


def test_a_field_that_is_coerced_otherwise_is_noticed(seen: Seen) -> None:
    """A field that took a text for a number in one of the two would be named."""
    name = "CacheConfig.gpu_memory_utilization"
    stub = {name: [["int", "1"], *seen.stub["coercion"][name][1:]]}

    assert _differences(stub, seen.real["coercion"], {name}) == [
        f"{name}: ['int', '1'] here, ['float', '1.0'] in vLLM"
    ]
