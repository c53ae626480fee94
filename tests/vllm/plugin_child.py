# SPDX-License-Identifier: Apache-2.0
"""The drop-in in a process with a real vLLM: `python plugin_child.py FIRST CASE...`.

FIRST is a module to import before anything else. Then each case runs in a fork of its own, so that
vLLM is imported once for all of them and none sees what another did. For each case, what it came
to is printed as a line of JSON.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import logging
import multiprocessing
import os
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN: Final = "vllm.v1.worker.startup_plan"
WORKER: Final = "vllm.v1.worker.gpu_worker"
NAMES: Final = (
    "compute_plan_fingerprint",
    "maybe_apply_startup_plan",
    "maybe_save_startup_plan",
)
STAND_IN: Final = "from vllm.v1.worker.startup_plan import maybe_apply_startup_plan as ask"


class Lines(logging.Handler):
    """Keeps what the drop-in says."""

    def __init__(self) -> None:
        """Listen to the logger that the drop-in uses."""
        super().__init__()
        self.said: list[str] = []
        logger = logging.getLogger("vllm.startup_plan")
        logger.addHandler(self)
        logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.said.append(f"{record.levelname} {record.getMessage()}")


def load_plugins() -> None:
    """Load them as vLLM does, as if it were the first time in this process."""
    plugins: Any = importlib.import_module("vllm.plugins")
    plugins.plugins_loaded = False
    plugins.load_general_plugins()


def stand_in(name: str) -> ModuleType:
    """A module that binds one of vLLM's functions by another name, as a worker of others may."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(STAND_IN, module.__dict__)  # noqa: S102  # the line above
    return module


def owners(module: ModuleType) -> list[str]:
    """The modules in which the functions that `module` holds were defined."""
    return [str(getattr(vars(module).get(name), "__module__", None)) for name in NAMES]


def twice() -> dict[str, Any]:
    """Loaded twice, with modules that bound the names before the first time and after it."""
    worker_was_loaded = WORKER in sys.modules
    early = stand_in("early")
    load_plugins()
    late = stand_in("late")
    load_plugins()
    worker = importlib.import_module(WORKER)
    return {
        "worker_was_loaded": worker_was_loaded,
        "early": early.ask.__module__,
        "late": late.ask.__module__,
        "worker": owners(worker)[1:],
    }


def spawned() -> dict[str, Any]:
    """What a process that was spawned finds after it has loaded its plugins."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_in_spawned, args=(theirs,))
    process.start()
    theirs.close()
    found = ours.recv()
    process.join()
    return {"spawned": found}


def _in_spawned(pipe: Any) -> None:
    load_plugins()
    pipe.send(owners(importlib.import_module(PLAN)))


def changed_source(module: str, change: Callable[[str], str]) -> str:
    """The source of a module of vLLM, with a change that it must have taken."""
    spec: Any = importlib.util.find_spec(module)
    source: str = spec.loader.get_source(module)
    changed = change(source)
    assert changed != source
    return changed


def altered_plan(change: Callable[[str], str]) -> dict[str, Any]:
    """A vLLM whose startup-plan module is another."""
    module = ModuleType(PLAN)
    exec(changed_source(PLAN, change), module.__dict__)  # noqa: S102  # a copy of vLLM's
    sys.modules[PLAN] = module
    return bound()


def no_plan() -> dict[str, Any]:
    """A vLLM without the module."""
    shipped = sys.modules[PLAN]
    sys.modules[PLAN] = None  # type: ignore[assignment]  # how an import is forbidden
    load_plugins()
    return {"after": owners(shipped)}


def altered_worker(change: Callable[[str], str]) -> dict[str, Any]:
    """A vLLM whose worker has another source."""
    changed = changed_source(WORKER, change)

    class Finder:
        """Finds the worker with its other source."""

        @staticmethod
        def find_spec(name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
            """The worker's spec, and nobody else's."""
            return importlib.machinery.ModuleSpec(name, Loader()) if name == WORKER else None

    class Loader(importlib.machinery.SourcelessFileLoader):
        """Gives the other source."""

        def __init__(self) -> None:
            """It has no file."""
            super().__init__(WORKER, "")

        def get_source(self, fullname: str) -> Any:
            """The source that was changed."""
            return changed if fullname == WORKER else None

    sys.meta_path.insert(0, Finder)
    return bound()


def replaced_worker() -> dict[str, Any]:
    """A worker whose function somebody else has replaced."""
    worker = ModuleType(WORKER)
    worker.__spec__ = importlib.util.find_spec(WORKER)
    sys.modules[WORKER] = worker
    vars(worker)["maybe_apply_startup_plan"] = print
    return bound()


def stubborn_module() -> dict[str, Any]:
    """A loaded module whose names cannot be rebound."""

    class Stubborn(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            raise RuntimeError(f"{key} stays")

    class Module:
        pass

    module = Module()
    module.__dict__ = Stubborn(ask=vars(sys.modules[PLAN])["maybe_apply_startup_plan"])
    sys.modules["stubborn"] = module  # type: ignore[assignment]  # as lazy modules do
    return bound()


def switched(variables: dict[str, str]) -> dict[str, Any]:
    """The installed vLLM under other variables than those of this process."""
    for name in ("STARTUP_PLAN_PLUGIN", "VLLM_PLUGINS"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    return bound()


def bound() -> dict[str, Any]:
    """Load the plugins; tell whose functions are in place, in a module that bound them as well."""
    early = stand_in("early")
    load_plugins()
    return {"after": owners(sys.modules[PLAN]), "early": early.ask.__module__}


def replacing(old: str, new: str) -> Callable[[str], str]:
    """A change of every `old` to `new`."""
    return lambda source: source.replace(old, new)


CASES: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "twice": twice,
    "spawned": spawned,
    "unset": lambda: switched({}),
    "0": lambda: switched({"STARTUP_PLAN_PLUGIN": "0"}),
    "true": lambda: switched({"STARTUP_PLAN_PLUGIN": "true"}),
    "not allowed": lambda: switched(
        {"STARTUP_PLAN_PLUGIN": "1", "VLLM_PLUGINS": "lora_filesystem_resolver"}
    ),
    "allowed": lambda: switched({"STARTUP_PLAN_PLUGIN": "1", "VLLM_PLUGINS": "startup_plan"}),
    "no plan module": no_plan,
    "no save function": lambda: altered_plan(replacing("def maybe_save_startup_plan(", "def s(")),
    "another signature": lambda: altered_plan(
        replacing("def maybe_apply_startup_plan(worker", "def maybe_apply_startup_plan(the_worker")
    ),
    "a default": lambda: altered_plan(replacing("world_size: int\n", "world_size: int = 1\n")),
    "a worker that does not save": lambda: altered_worker(
        replacing("maybe_save_startup_plan(self, kv_cache_memory_bytes_to_requested_limit)", "pass")
    ),
    "a worker that does not ask": lambda: altered_worker(
        replacing("        maybe_apply_startup_plan(self)\n", "        pass\n")
    ),
    "a worker without source": lambda: altered_worker(lambda _: ""),
    "a worker replaced by others": replaced_worker,
    "a stubborn module": stubborn_module,
}


def main(arguments: list[str]) -> None:
    """Run the cases, each in a fork."""
    first, *names = arguments
    importlib.import_module(first)
    for name in names:
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            lines = Lines()
            facts = CASES[name]()
            print(json.dumps({"case": name, "said": lines.said, **facts}), flush=True)  # noqa: T201
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
