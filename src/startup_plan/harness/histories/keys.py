# SPDX-License-Identifier: Apache-2.0
"""How the suite sees the key of a boot: by the name under which the boot saves its plan.

A subject may build its key with parameters of its own, so nothing here calls its fingerprint
function. A boot in an empty plan folder shows the key, whatever is written into the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.violation import NeverReachedError
from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION, Engine
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World
from startup_plan.support import plan_files
from startup_plan.support.environment import FLAG, ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from startup_plan.harness.stubs.configs import Setting, Variable
    from startup_plan.harness.world.outcome import BootResult

JUDGED_ELSEWHERE: Final = frozenset(
    {
        UTILIZATION,  # KEY-02
        "parallel_config.world_size",  # KEY-07
        "parallel_config.data_parallel_rank",  # KEY-08, as the two below
        "parallel_config.data_parallel_rank_local",
        "parallel_config.data_parallel_index",
        "parallel_config.assigned_physical_gpu_ids",  # KEY-04: which card, not how much of it
    }
)
"""Settings that KEY-10 leaves to the requirements that are about them."""

PROCESS_LOCAL: Final = (
    "instance_id",
    "kv_transfer_config.engine_id",
    "ec_transfer_config.engine_id",
    "parallel_config._data_parallel_master_port_list",
    "parallel_config._coord_store_port",
)
"""Settings that vLLM fills in anew at each start (KEY-13)."""

SAME_HASH: Final = "c0ffee0000"
"""A config hash for engines whose settings must show in the key without its help."""

_NOT_VARIED: Final = frozenset({FLAG, ROOT, "VLLM_PORT"})


def moving_settings() -> tuple[Setting, ...]:
    """The settings that change the measured memory and belong to KEY-10."""
    return tuple(
        setting
        for setting in stub_configs.SETTINGS
        if setting.moves and setting.path not in JUDGED_ELSEWHERE
    )


def idle_settings() -> tuple[Setting, ...]:
    """The settings that take no memory and that the config hash does not read (KEY-14)."""
    return tuple(
        setting
        for setting in stub_configs.SETTINGS
        if setting.moves is False and not setting.hashed and setting.path not in PROCESS_LOCAL
    )


def idle_variables() -> tuple[Variable, ...]:
    """The variables that take no memory and set no hashed field (KEY-14)."""
    return tuple(
        variable
        for variable in stub_configs.VARIABLES
        if variable.moves is False and not variable.hashed and variable.name not in _NOT_VARIED
    )


def look(
    world: World, engine: Engine, rank: int = 0, *, schema: int | str | None = None
) -> tuple[str | None, BootResult]:
    """Boot one rank in an empty plan folder.

    Returns:
        The name under which it saved a plan, None if it saved nothing, and the boot.
    """
    clear(world)
    result = world.boot(engine, rank, schema=schema)
    return saved_name(world), result


def lacks_trait(world: World, trait: str, *, each: bool = False) -> str:
    """Why the devices of this backend are not told apart by `trait`; "" if they are.

    Args:
        world: an entered world.
        trait: "name", "total" or "capability".
        each: whether the devices of one host must be told apart by it.
    """
    backend = world.runtime.backend
    counted = {"name": backend.named, "capability": backend.rated}.get(trait)
    if counted == "none":
        return f"no device of the backend {backend.name} has a {trait}"
    if counted == "first" and each:
        return f"all devices of one host of the backend {backend.name} have one {trait}"
    return ""


def key_of(
    world: World, engine: Engine, rank: int = 0, *, schema: int | str | None = None
) -> str | None:
    """The key of one rank, None if its boot saves nothing; empties the plan folder first."""
    return look(world, engine, rank, schema=schema)[0]


def sure_key(
    world: World, engine: Engine, rank: int = 0, *, schema: int | str | None = None
) -> str:
    """The key of one rank.

    Raises:
        NeverReachedError: the boot saved nothing, so that no key can be seen.
    """
    key, result = look(world, engine, rank, schema=schema)
    if key is None:
        said = f"; it logged: {result.lines[-1]}" if result.lines else ""
        raise NeverReachedError(f"a key; nothing was saved: {result}{said}")
    return key


def clear(world: World) -> None:
    """Remove every plan, and whatever else lies below the cache root."""
    for name in world.files():
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(world.plan_folder, name))
    with contextlib.suppress(FileNotFoundError):
        if os.listdir(world.cache_root) != [os.path.basename(world.plan_folder)]:
            shutil.rmtree(world.cache_root, ignore_errors=True)


def saved_name(world: World) -> str | None:
    """What tells the saved plan from others: its key, where it is named as it should be.

    A plan with another name or in another folder (KEY-15) is told by its path below the root.
    """
    names = world.files()
    plans = [name for name in names if plan_files.is_plan(name)]
    if len(plans) == 1:
        return plan_files.key_of(plans[0])
    found = [
        os.path.relpath(os.path.join(folder, name), world.cache_root)
        for folder, _, files in os.walk(world.cache_root)
        for name in files
    ]
    return " + ".join(sorted(found)) or None


def twins(keys: Iterable[tuple[str, str]]) -> tuple[str, str, str] | None:
    """The first two descriptions that share a key, and that key; None if all keys differ.

    Args:
        keys: pairs of a description and the key that was seen for it.
    """
    seen: dict[str, str] = {}
    for description, key in keys:
        if key in seen:
            return seen[key], description, key
        seen[key] = description
    return None


def odd_one(keys: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The first two descriptions whose keys differ; None if all keys are equal."""
    for description, key in keys[1:]:
        if key != keys[0][1]:
            return keys[0][0], description
    return None


def reuse(world: World, first: Engine, change: str, second: Engine, rank: int = 0) -> str:
    """What happens when `first` boots, something changes, and `second` boots: one line."""
    clear(world)
    before = world.boot(first, rank)
    after = world.boot(second, rank)
    return f"{before}; {change}; {after}"


def shown(value: object, longest: int = 48) -> str:
    """`value` for a story."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def listed(names: Collection[str], most: int = 8) -> str:
    """The first few of many names, and how many were left out."""
    head, rest = list(names)[:most], len(names) - most
    return ", ".join(head) + (f" and {rest} more" if rest > 0 else "")


def size(number: int) -> str:
    """`number` bytes for a list, where two digits are enough."""
    return f"{number / GIB:.2f} GiB"


def make_roomy(world: World) -> World:
    """Give every device so much memory that no setting leaves a boot without KV cache."""
    for device in world.devices:
        device.total = 16384 * GIB
    return world


# An engine whose configuration and environment have an order that must not matter (KEY-13).

NESTED: Final[Mapping[str, Any]] = {
    "load_config.model_loader_extra_config": {
        "mode": "copy",
        "threads": 4,
        "daemon": {"zone": "b", "age": 1.5},
        "shards": [3, 1, 2],
    },
    "model_config.multimodal_config.mm_processor_kwargs": {"max_pixels": 1003520, "crop": True},
    "compilation_config.inductor_compile_config": {"max_autotune": True, "debug": False},
}
"""Settings that are mappings, and what the ordered engine holds there."""

_SET: Final = ("mlp", "attn", "norm", "embed", "lm_head", "gate", "up", "down")
_ENVIRON: Final[Mapping[str, str]] = {
    "VLLM_PP_LAYER_PARTITION": "14,14",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:512",
    "NCCL_BUFFSIZE": "8388608",
    "VLLM_MARLIN_INPUT_DTYPE": "fp8",
    "NCCL_CUMEM_ENABLE": "1",
}


def ordered_engine(*, backwards: bool = False) -> Engine:
    """An engine full of mappings, sets and variables.

    Args:
        backwards: whether every one of them is filled in the opposite order.
    """
    engine = Engine()
    for path, value in NESTED.items():
        engine.set(path, _turned(value) if backwards else value)
    engine.set("offload_config.uva.cpu_offload_params", list(_SET)[:: -1 if backwards else 1])
    for name in list(_ENVIRON)[:: -1 if backwards else 1]:
        engine.setenv(name, _ENVIRON[name])
    return engine


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(item) for key, item in reversed(value.items())}
    return value


def turn_around(engine: Engine) -> None:
    """Fill the mappings and the environment of an ordered engine in the opposite order."""
    for path in NESTED:
        engine.set(path, _turned(stub_configs.get_setting(engine.config, path)))
    engine.environ = dict(reversed(engine.environ.items()))


def main(arguments: Sequence[str]) -> int:
    """Print the key of the ordered engine, as JSON: a real process of its own (KEY-13).

    Args:
        arguments: the subject, an empty folder, and a JSON object with `backwards`, `settings`
            (path to value) and `environ`.
    """
    name, folder, options = arguments
    given = json.loads(options)
    engine = ordered_engine(backwards=given["backwards"])
    for path, value in given["settings"].items():
        engine.set(path, value)
    for variable, text in given["environ"].items():
        engine.setenv(variable, text)
    with World(load_subject(name), folder) as world:
        key, result = look(world, engine)
    sys.stdout.write(json.dumps({"key": key, "boot": str(result)}) + "\n")
    return 0


@contextlib.contextmanager
def failing_config_hash() -> Iterator[None]:
    """While this lasts, `VllmConfig.compute_hash()` raises (KEY-17)."""
    config: Any = stub_configs.config_classes()["VllmConfig"]
    usual = config.compute_hash

    def compute_hash(self: Any, *_: object, **__: object) -> str:
        raise RuntimeError(f"simulated: compute_hash of a {type(self).__name__} fails")

    config.compute_hash = compute_hash
    try:
        yield
    finally:
        config.compute_hash = usual


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
