# SPDX-License-Identifier: Apache-2.0
"""Configurations of the installed vLLM, and every field that can be reached from them.

One configuration cannot carry everything (a model that draws on images, one that pools, one with
experts), so there are several. What no configuration here can have on a machine without an
accelerator is put in by hand, so that every field of every class exists somewhere.

vLLM is imported inside the functions; the process should be one of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
import typing
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.real_vllm import tiny_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_PACKAGE: Final = "vllm.config."
"""Where configuration classes are; dataclasses of other packages are values of a field."""

_UNSET: Final = "PydanticUndefined"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Base:
    """One real configuration.

    Attributes:
        name: what it is an example of.
        config: the `VllmConfig`.
        by_hand: names of the classes that it holds though vLLM did not build them.
    """

    name: str
    config: Any
    by_hand: frozenset[str]


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """One field of one configuration object.

    Attributes:
        path: the way to it from the `VllmConfig`, as in the settings table.
        owner: name of the class that holds it.
        field: its name.
        holder: the object that holds it.
        base: the configuration that the object belongs to.
    """

    path: str
    owner: str
    field: str
    holder: Any
    base: Base

    def value(self) -> Any:
        """What the field holds, None where the attribute was never set."""
        return getattr(self.holder, self.field, None)

    def is_section(self) -> bool:
        """Whether fields of their own lie below it."""
        return bool(_sections(self.value()))

    @contextlib.contextmanager
    def changed(self, value: Any) -> Iterator[Any]:
        """The whole configuration while the field holds `value`; validation is passed over."""
        missing = object()
        before = getattr(self.holder, self.field, missing)
        object.__setattr__(self.holder, self.field, value)
        try:
            yield self.base.config
        finally:
            if before is missing:
                object.__delattr__(self.holder, self.field)
            else:
                object.__setattr__(self.holder, self.field, before)


def build(folder: Path) -> list[Base]:
    """Build every configuration; models are made below `folder`.

    Raises:
        Exception: whatever vLLM raises when it is given a model that it should know.
    """
    bases = [Base(name, make(folder), frozenset()) for name, make in _RECIPES.items()]
    return _completed(bases)


def construct(folder: Path, kind: str = "llama", **arguments: Any) -> Any:
    """A `VllmConfig` as an engine would build it for a tiny model.

    Args:
        folder: where models are made and found again.
        kind: which model, see `tiny_models`.
        arguments: of `EngineArgs`.
    """
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # takes seconds

    return EngineArgs(**_usual(folder, kind) | arguments).create_engine_config()


def places(bases: list[Base]) -> list[Place]:
    """Every field of every configuration class, once, in the order of a walk by depth.

    An object that vLLM built goes before one that was put in by hand, and an optional part that
    is there before one that is not.
    """
    best: dict[tuple[str, str], Place] = {}
    for base in bases:
        for place in walk(base):
            key = (place.owner, place.field)
            if key not in best or _rank(place) > _rank(best[key]):
                best[key] = place
    return list(best.values())


def walk(base: Base) -> Iterator[Place]:
    """Every field of every configuration object in `base`, breadth first, no object twice."""
    seen: set[int] = set()
    level: list[tuple[str, Any]] = [("", base.config)]
    while level:
        below: list[tuple[str, Any]] = []
        for head, holder in level:
            if id(holder) in seen:
                continue
            seen.add(id(holder))
            for field in dataclasses.fields(holder):
                yield Place(head + field.name, type(holder).__name__, field.name, holder, base)
            for name, value in vars(holder).items():
                below += [(f"{head}{name}{key}.", part) for key, part in _sections(value)]
        level = below


def classes(root: type[Any]) -> dict[str, type[Any]]:
    """Every configuration class that the annotations of `root` lead to, `root` included."""
    found, todo = {root.__name__: root}, [root]
    while todo:
        owner: Any = todo.pop()
        for kind in _hints(owner).values():
            for cls in _config_classes(kind):
                if cls.__name__ not in found:
                    found[cls.__name__] = cls
                    todo.append(cls)
    return found


def hint_of(place: Place) -> Any:
    """The annotation of the field, None where it cannot be resolved."""
    owner: Any = type(place.holder)
    return _hints(owner).get(place.field)


def config_classes_of(place: Place) -> list[type[Any]]:
    """The configuration classes whose objects the field may hold."""
    return _config_classes(hint_of(place))


def _rank(place: Place) -> tuple[bool, bool]:
    return place.owner not in place.base.by_hand, place.is_section()


def _sections(value: Any) -> list[tuple[str, Any]]:
    """The configuration objects that a field holds, each with its key in brackets or ""."""
    if _is_config(value):
        return [("", value)]
    if isinstance(value, dict):
        return [(f"[{key}]", part) for key, part in value.items() if _is_config(part)]
    return []


def _is_config(value: Any) -> bool:
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and f"{type(value).__module__}.".startswith(_PACKAGE)
    )


# What vLLM builds.


def _usual(folder: Path, kind: str) -> dict[str, Any]:
    model = folder / kind
    if not (model / "config.json").exists():
        tiny_models.make(kind, model)
    return {
        "model": str(model),
        "max_model_len": 256,
        "dtype": "float32",
        "enforce_eager": False,
    }


def _llama(folder: Path) -> Any:
    from vllm import config  # noqa: PLC0415  # as above

    _usual(folder, "draft")
    build = functools.partial(
        construct,
        folder,
        enable_lora=True,
        speculative_config={
            "method": "draft_model",
            "model": str(folder / "draft"),
            "num_speculative_tokens": 3,
        },
        kv_transfer_config=config.KVTransferConfig(
            kv_connector="ExampleConnector", kv_role="kv_both"
        ),
        kv_events_config=config.KVEventsConfig(enable_kv_cache_events=True, publisher="null"),
        weight_transfer_config=config.WeightTransferConfig(),
    )
    try:
        return build(reasoning_config=config.ReasoningConfig())
    except KeyError:
        # vLLM 0.26 looks for the parser of a name that nobody gave.
        return build()


def _multimodal(folder: Path) -> Any:
    from vllm import config  # noqa: PLC0415  # as above

    return construct(
        folder,
        "multimodal",
        limit_mm_per_prompt={"image": 2},
        video_pruning_rate=0.5,
        ec_transfer_config=config.ECTransferConfig(
            ec_connector="ECExampleConnector", ec_role="ec_consumer"
        ),
    )


def _experts(folder: Path) -> Any:
    return construct(folder, "mixture-of-experts", enable_expert_parallel=True)


def _pooling(folder: Path) -> Any:
    return construct(folder, runner="pooling", convert="embed")


_RECIPES: Final[Mapping[str, Callable[[Path], Any]]] = {
    "llama": _llama,
    "multimodal": _multimodal,
    "mixture-of-experts": _experts,
    "pooling": _pooling,
}


# What has to be put in by hand.


def _completed(bases: list[Base]) -> list[Base]:
    """`bases` with every class that annotations lead to and that none of them has yet."""
    wanted = classes(type(bases[0].config))
    done = []
    for base in bases:
        by_hand: set[str] = set()
        # A part may have parts of its own, so go on until nothing is missing or can be placed.
        while _place_one(base, bases, wanted, by_hand):
            pass
        done.append(Base(base.name, base.config, frozenset(by_hand)))
    return done


def _place_one(
    base: Base, bases: list[Base], wanted: Mapping[str, type[Any]], by_hand: set[str]
) -> bool:
    held = {place.owner for other in bases for place in walk(other)}
    missing = {name: cls for name, cls in wanted.items() if name not in held}
    # A class that others only inherit from exists in them.
    missing = {
        name: cls
        for name, cls in missing.items()
        if not any(other is not cls and issubclass(other, cls) for other in wanted.values())
    }
    for place in walk(base):
        for cls in config_classes_of(place):
            if cls.__name__ in missing and _put(place, cls):
                by_hand.add(cls.__name__)
                return True
    return False


def _put(place: Place, cls: type[Any]) -> bool:
    value = place.value()
    if isinstance(value, dict):
        name = cls.__name__.removesuffix("DummyOptions").lower()
        object.__setattr__(place.holder, place.field, {**value, name: made(cls)})
        return True
    if value is None:
        object.__setattr__(place.holder, place.field, made(cls))
        return True
    return False


def made(cls: type[Any]) -> Any:
    """An object of `cls`: built without arguments or, where that fails, with bare defaults."""
    try:
        return cls()
    except Exception:
        made = object.__new__(cls)
        for field in dataclasses.fields(cls):
            object.__setattr__(made, field.name, default_of(field))
        return made


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field, of pydantic's or the ordinary kind; None where it has none."""
    value: Any = field.default
    if field.default_factory is not dataclasses.MISSING:
        with contextlib.suppress(Exception):
            return field.default_factory()
        return None
    if hasattr(value, "get_default"):
        with contextlib.suppress(Exception):
            value = value.get_default(call_default_factory=True)
    return None if value is dataclasses.MISSING or _UNSET in type(value).__name__ else value


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    """Annotations of the fields of `cls`; what cannot be resolved is left out."""
    try:
        return typing.get_type_hints(cls)
    except Exception:
        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            for name, text in vars(base).get("__annotations__", {}).items():
                with contextlib.suppress(Exception):
                    hints[name] = _resolved(base, name, text)
        return hints


def _resolved(cls: type[Any], name: str, annotation: Any) -> Any:
    one = types.SimpleNamespace(__annotations__={name: annotation})
    space = vars(__import__(cls.__module__, fromlist=["_"]))
    return typing.get_type_hints(one, globalns=space)[name]


def _config_classes(kind: Any) -> list[type[Any]]:
    """The configuration classes that an annotation allows, subclasses included."""
    if isinstance(kind, type) and not typing.get_args(kind):
        if not f"{kind.__module__}.".startswith(_PACKAGE):
            return []
        if dataclasses.is_dataclass(kind):
            return [kind, *kind.__subclasses__()]
        # A mapping class of vLLM says what it maps to among its bases.
        bases = getattr(kind, "__orig_bases__", ())
        return [cls for base in bases for cls in _config_classes(base)]
    return [cls for part in typing.get_args(kind) for cls in _config_classes(part)]
