# SPDX-License-Identifier: Apache-2.0
"""Stub configuration classes with the names, fields, defaults and hash of vLLM 0.33.0.

The classes are real dataclasses, made at import from `vllm_settings.json`, so that a subject
that walks `dataclasses.fields()` finds what it would find in vLLM. `compute_hash()` exists on
exactly the classes that have one there. `tests/vllm` holds both against each other.

Values cross this module's functions as JSON (see `settings`); inside a config they have the
type that vLLM gives them: enum members, sets, counters, Hugging Face and quantization objects.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import pathlib
import re
from typing import TYPE_CHECKING, Any, Final

from .attributes import lacking
from .coercion import taken
from .hashes import ENCODER, FACTORS, engine_hash, factors_of, name_of, part_hash
from .settings import (
    CLASSES,
    EXTRA_VARIABLES,
    ROWS,
    SETTINGS,
    VARIABLES,
    VERSION,
    Setting,
    Variable,
    plain,
)
from .values import ENUMS, OPAQUE, SCALARS, CompilationMode, CUDAGraphMode, clone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Steps = tuple[tuple[str, str | None], ...]

__all__ = [
    "EXTRA_VARIABLES",
    "SETTINGS",
    "VARIABLES",
    "CUDAGraphMode",
    "CompilationMode",
    "Setting",
    "Variable",
    "config_classes",
    "copy_config",
    "get_setting",
    "make_config",
    "set_setting",
    "setting",
    "taken_by",
    "variable",
    "version_of",
]


def _default_version() -> str:
    return VERSION


def _version() -> str:
    return version_of()  # looked up at each call, so that the world can replace it


version_of: Callable[[], str] = _default_version
"""Gives the vLLM version that `VllmConfig.compute_hash()` includes; the world replaces it."""

_BY_FIELD: Final = {(row["owner"], name_of(row)): row for row in ROWS}
_OBJECTS: Final = {row["path"].rpartition(".")[0]: row["owner"] for row in ROWS}
"""Path of every object in the tree that has settings of its own -> its class."""

_SETTING: Final = {setting.path: setting for setting in SETTINGS}
_VARIABLE: Final = {variable.name: variable for variable in (*VARIABLES, *EXTRA_VARIABLES)}
_CLASSES: Final[dict[str, type[Any]]] = {}


def config_classes() -> dict[str, type[Any]]:
    """Every stub class by vLLM's name for it, in a new dict."""
    return dict(_CLASSES)


def __getattr__(name: str) -> Any:
    """The class of that name, so that the module reads like `vllm.config`."""
    try:
        return _CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def setting(path: str) -> Setting:
    """The setting at `path`; KeyError where the audit has none."""
    return _SETTING[path]


def variable(name: str) -> Variable | None:
    """The variable of that name, registered by vLLM or extra; None if it is neither."""
    return _VARIABLE.get(name)


# The classes.


def _fresh(class_name: str) -> Any:
    return _CLASSES[class_name]()


def _field(row: Mapping[str, Any]) -> Any:
    """The dataclass field of `row`, with vLLM's own default."""
    if row.get("part") == "dict":
        return dataclasses.field(default_factory=dict)
    if "part" in row and "default" not in row:
        return dataclasses.field(default_factory=functools.partial(_fresh, row["part"]))
    default = _default(row, row.get("default"))
    if isinstance(default, (dict, list, set)):
        return dataclasses.field(default_factory=default.copy)
    return dataclasses.field(default=default)


def _differences(self: Any) -> dict[str, Any]:
    """The fields in which `self` differs from a new object of its class, as JSON."""
    fresh = type(self)()
    pairs = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
    return {name: plain(value) for name, value in pairs if value != getattr(fresh, name)}


def _short_repr(self: Any) -> str:
    """What is out of the ordinary, which is what a story needs."""
    shown = ", ".join(f"{name}={value!r}" for name, value in _differences(self).items())
    return f"{type(self).__name__}({shown})"


def _is_moe(self: Any) -> bool:
    """Whether the model is a mixture of experts (config/model.py:2294)."""
    return bool(getattr(self.hf_config, "num_experts", 0))


def _world_size_across_dp(self: Any) -> int:
    """Ranks of all data-parallel replicas together (config/parallel.py)."""
    size: int = self.world_size * self.data_parallel_size
    return size


_EXTRAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "VllmConfig": {"_hash_override": None, "_hash_salt": None},
    "ModelConfig": {"is_moe": property(_is_moe), "model_arch_config": None},
    "SpeculativeConfig": {"__shared__": ("target_model_config", "target_parallel_config")},
    "ParallelConfig": {"world_size_across_dp": property(_world_size_across_dp)},
}
"""What is no field: as in vLLM, `model_arch_config` is an attribute set after construction."""


def _make_class(spec: Mapping[str, Any]) -> None:
    name = spec["name"]
    rows = [row for (owner, _), row in _BY_FIELD.items() if owner == name]
    factors = factors_of(name, rows)
    space: dict[str, Any] = {
        "__repr__": _short_repr,
        "__plain__": _differences,
        "__getattr__": lacking(name),
    }
    space |= _EXTRAS.get(name, {})
    if name == "VllmConfig":
        space["compute_hash"] = engine_hash(factors, _version)
    elif spec["compute_hash"]:
        space["compute_hash"] = part_hash(ENCODER if name == "MultiModalConfig" else factors)
    fields = [(name_of(row), Any, _field(row)) for row in rows]
    cls = dataclasses.make_dataclass(name, fields, namespace=space, repr=False)
    _coerce(cls, rows)
    cls.__module__ = __name__  # for pickle; make_dataclass takes it as an argument from 3.12 on
    cls.__doc__ = f"Stub of {name} in vllm/{spec['source']}."
    _CLASSES[name] = cls
    FACTORS[cls] = factors


def _coerce(cls: Any, rows: Iterable[Mapping[str, Any]]) -> None:
    """Let `cls` coerce what it is constructed with, though not its defaults, as vLLM's does."""
    construct = cls.__init__
    names = [name_of(row) for row in rows]
    takes = {name_of(row): row["takes"] for row in rows if "takes" in row}

    @functools.wraps(construct)
    def coercing(self: Any, *arguments: Any, **named: Any) -> None:
        given = dict(zip(names, arguments, strict=False)) | named
        for name in given.keys() & takes.keys():
            given[name] = taken(takes[name], given[name])
        construct(self, **given)

    cls.__init__ = coercing


# Values: from JSON to what a config holds.


def _decode(row: Mapping[str, Any], value: Any) -> Any:
    """What the field in `row` holds when it is constructed with `value`.

    Args:
        row: the field.
        value: JSON, or already of the field's own type.

    Raises:
        RefusedValueError: vLLM refuses such a value.
    """
    if "takes" not in row or _is_left_out(row, value):
        return _default(row, value)
    return taken(row["takes"], value)


def _is_left_out(row: Mapping[str, Any], value: Any) -> bool:
    """Whether `value` stands for not being given: vLLM does not coerce its own defaults."""
    return value is None and row.get("default") is None


def _default(row: Mapping[str, Any], value: Any) -> Any:
    """As `_decode`, for a value that vLLM itself puts there, which is not coerced."""
    if value is None:
        return None
    if "part" in row:
        return _decode_part(row, value) if isinstance(value, dict) else value
    kind = row.get("type", "")
    if kind in ENUMS:
        if isinstance(value, dict):
            return {key: _decode(row, item) for key, item in value.items()}
        return ENUMS[kind][value] if type(value) is str else ENUMS[kind](value)
    if kind in OPAQUE:
        return OPAQUE[kind](**clone(value)) if isinstance(value, dict) else value
    if kind in _BUILDERS:
        return _BUILDERS[kind](value)
    return clone(value)


_BUILDERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Counter": collections.Counter,
    "Path": pathlib.Path,
    "set": set,
}


def _decode_part(row: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
    """A new part: as `make_config()` makes it where it has settings of its own, else as told."""
    prototype = _PROTOTYPES.get(row["path"])
    if prototype is not None:
        return prototype()
    part = _CLASSES[row["part"]]()
    for field, item in value.items():
        setattr(part, field, _decode(_BY_FIELD[row["part"], field], item))
    return part


# The tree: a prototype with every optional part filled in, and a fast way to copy it.


def _grow(path: str) -> Any:
    """The object at `path` of the prototype, with all that hangs below it."""
    node = _CLASSES[_OBJECTS[path]]()
    for row in ROWS:
        below = row["path"]
        if below.rpartition(".")[0] != path or "alias" in row:
            continue
        if row.get("part") == "dict":
            keys = [key for key in _OBJECTS if key.startswith(f"{below}[")]
            value: Any = {key[len(below) + 1 : -1]: _grow(key) for key in keys}
        elif below in _OBJECTS:
            value = _grow(below)
        else:
            # An engine constructs its parts with what it was told, defaults of its own included.
            value = _decode(row, row.get("filled", row["default"]))
        setattr(node, name_of(row), value)
    if path == "model_config":
        node.model_arch_config = _grow("model_config.model_arch_config")
    return node


def _copier(value: Any) -> Callable[[], Any] | None:
    """Makes copies of `value`; None for what need not be copied."""
    kind = type(value)
    if kind in SCALARS or isinstance(value, (enum.Enum, pathlib.PurePath)):
        return None
    if not dataclasses.is_dataclass(value):
        flat = isinstance(value, (list, dict, set)) and not any(map(_copier, _items(value)))
        return value.copy if flat else functools.partial(clone, value)
    parts = [(name, part) for name, item in vars(value).items() if (part := _copier(item))]
    template = vars(value)
    new = object.__new__

    def copy() -> Any:
        made = new(kind)
        made.__dict__ = state = template.copy()
        for name, part in parts:
            state[name] = part()
        return made

    return copy


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


_ALIASES: Final = [(*row["path"].split("."), row["alias"]) for row in ROWS if "alias" in row]
"""(part, field, other part): the field is another name for the other part."""


def _link(config: Any) -> None:
    """Let the aliases name the parts of this very config (config/speculative.py:518)."""
    for part, field, other in _ALIASES:
        holder = getattr(config, part)
        if holder is not None:
            setattr(holder, field, getattr(config, other))


@functools.cache
def _parse(path: str) -> tuple[Steps, str]:
    """The steps to the object that holds the field, each an attribute and perhaps a key."""
    steps = re.findall(r"(\w+)(?:\[(\w+)\])?\.", path)
    return tuple((name, key or None) for name, key in steps), path.rpartition(".")[2]


def _walk(config: Any, steps: Steps) -> Any:
    """The object at the end of `steps`; None where a part on the way is None."""
    node = config
    for name, key in steps:
        node = getattr(node, name)
        if key is not None:
            node = node.get(key)
        if node is None:
            return None
    return node


def _holder(config: Any, path: str) -> tuple[Any, str]:
    steps, field = _parse(path)
    node = _walk(config, steps)
    if node is None:
        raise AttributeError(f"{path}: this config has no such part")
    return node, field


_PROTOTYPES: Final[dict[str, Callable[[], Any]]] = {}
"""Path of a part with settings of its own -> a maker of that part as `make_config()` makes it."""

for _spec in CLASSES:
    _make_class(_spec)
_ROOT: Final = _grow("")
for _path in _OBJECTS:
    _part = _ROOT if _path == "" else _walk(_ROOT, _parse(f"{_path}.")[0])
    if not _path.endswith("]") and (_make := _copier(_part)) is not None:
        _PROTOTYPES[_path] = _make


def make_config(overrides: Mapping[str, object] | None = None) -> Any:
    """A new VllmConfig, independent of every other, with every optional part filled in.

    Args:
        overrides: JSON values by dotted path; parts are set before what lies in them.

    Raises:
        AttributeError: a path leads nowhere.
    """
    config = _PROTOTYPES[""]()
    _link(config)
    for path in sorted(overrides or (), key=lambda path: path.count(".")):
        set_setting(config, path, (overrides or {})[path])
    return config


def copy_config(config: Any) -> Any:
    """A deep copy that shares nothing with `config`, its hash override and salt included."""
    copy = clone(config)
    _link(copy)
    return copy


def get_setting(config: Any, path: str) -> Any:
    """The value at `path` as JSON, comparable with `Setting.default`.

    Raises:
        AttributeError: the path leads nowhere, or through a part that is None.
    """
    holder, field = _holder(config, path)
    value = getattr(holder, field)
    if path in _PROTOTYPES:
        return None if value is None else {}
    return plain(value)


def taken_by(path: str, value: Any) -> Any:
    """What a config that is constructed with `value` at `path` holds there, as JSON.

    Raises:
        RefusedValueError: vLLM constructs none with such a value.
    """
    setting = _SETTING[path]
    row = _BY_FIELD[setting.owner, setting.field]
    if "takes" not in row or _is_left_out(row, value):
        return value
    return taken(row["takes"], value)


def set_setting(config: Any, path: str, value: Any) -> None:
    """Set the field at `path` to what a config holds that was constructed with `value`.

    Args:
        config: the config.
        path: a field.
        value: JSON, or of the field's own type.

    Raises:
        AttributeError: the path leads nowhere, or through a part that is None.
        KeyError: no member of the field's enum has that name.
        RefusedValueError: vLLM constructs no config with such a value.
    """
    holder, field = _holder(config, path)
    row = _BY_FIELD.get((type(holder).__name__, field))
    if row is None:
        raise AttributeError(f"{path}: {type(holder).__name__} has no field {field}")
    setattr(holder, field, _decode(row, value))
    if "part" in row:
        _link(config)
