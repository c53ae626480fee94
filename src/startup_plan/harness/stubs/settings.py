# SPDX-License-Identifier: Apache-2.0
"""Every setting of vLLM 0.33.0 that a boot can see, and what it physically does in the world.

The facts (names, defaults, which fields the config hash reads, which take device memory) stand in
`vllm_settings.json`, one row a line; each row names the vLLM file and line it was read from.
Values are JSON throughout: an enum member is its name, a set is a sorted list, an optional
sub-config is `{}` when it is present and `None` when it is not.

The bytes are invented but physical in kind: the same value always takes the same memory, another
value another amount, and each amount exceeds the 150 MiB that the real worker keeps as a safety
buffer, so that no difference can hide there.
"""

from __future__ import annotations

import enum
import json
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, final
from zlib import crc32

from .units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GRAIN: Final = 2 * MIB
"""Device memory comes in pieces of 2 MiB, the block size of the CUDA allocator."""

BIG: Final = range(GIB, 3 * GIB, GRAIN)
SMALL: Final = range(192 * MIB, 448 * MIB, GRAIN)

LINEAR: Final[Mapping[str, int]] = {
    "model_config.max_model_len": 2 * MIB,
    "scheduler_config.max_num_batched_tokens": 2 * MIB,
    "scheduler_config.max_num_seqs": 16 * MIB,
    "speculative_config.num_speculative_tokens": 512 * MIB,
}
"""Bytes per unit of the settings that everyone expects to cost more the larger they are."""

BUDGET: Final = frozenset({"cache_config.gpu_memory_utilization"})
"""Settings that move the budget, not the memory in use: the world computes these itself."""


def load() -> dict[str, Any]:
    """The data file, parsed anew."""
    text = resources.files(__package__).joinpath("vllm_settings.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def plain(value: object) -> Any:
    """`value` as the JSON that the table speaks; what is JSON already comes back as it is."""
    kind = type(value)
    if value is None or kind in _SCALARS:
        return value
    if kind is list or kind is tuple:
        return [plain(item) for item in value]  # type: ignore[attr-defined]
    if kind is set or kind is frozenset:
        return sorted(value)  # type: ignore[call-overload]
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    own: Callable[[], object] | None = getattr(value, "__plain__", None)
    return str(value) if own is None else own()


_SCALARS: Final = frozenset({bool, int, float, str})


def _amount(name: str, size: str, default: object, value: object) -> int:
    """Bytes of `value` beside `default`: its magnitude from a checksum, its sign from common sense.

    Switching a thing off (None, False) or a smaller number frees memory; all else takes some.
    """
    mark = f"{name}={json.dumps(value, sort_keys=True)}".encode()
    scale = BIG if size == "big" else SMALL
    # The low bits of two checksums differ alike whatever the name is, so the high bits choose.
    mixed = crc32(mark) * 2654435761 % (1 << 32)
    bytes_ = scale[mixed * len(scale) >> 32]
    return -bytes_ if _is_less(value, default) else bytes_


def _is_less(value: object, default: object) -> bool:
    if value is None or value is False:
        return default is not None
    return isinstance(value, (int, float)) and isinstance(default, (int, float)) and value < default


@final
class Setting:
    """One configuration field, or the presence of one optional sub-config.

    Attributes:
        path: where it lies, dotted from the VllmConfig ("cache_config.block_size",
            "model_config.multimodal_config.limit_per_prompt[image].width").
        owner: name of the class that declares it.
        field: name of the field in that class.
        default: the value that `make_config()` gives it.
        alternates: other legal values.
        hashed: whether going from the default to an alternate moves `compute_hash()`.
        moves: whether it takes device memory; None where the audit could not tell.
        size: "big", "small" or "" of that memory.
        kind: how it is hashed when that is not plainly yes or no, else "": "through" (it drags
            a hashed field along), "count", "on_off", "compile_mm_encoder", "dspark",
            "aux_methods" (hashed in that case only), "side_effect" (never by itself).
        takes: what it is constructed with, in the words of `coercion`; "" where it has none.
        source: vLLM file and line.
    """

    __slots__ = (
        "alternates",
        "default",
        "field",
        "hashed",
        "kind",
        "moves",
        "owner",
        "path",
        "size",
        "source",
        "takes",
    )

    def __init__(self, row: Mapping[str, Any]) -> None:
        """Read one row of the data file."""
        self.path: Final[str] = row["path"]
        self.owner: Final[str] = row["owner"]
        self.field: Final[str] = self.path.rpartition(".")[2]
        self.default: Final[Any] = row.get("filled", row["default"])
        self.alternates: Final[tuple[Any, ...]] = tuple(row["alternates"])
        self.hashed: Final[bool] = row["hashed"]
        self.moves: Final[bool | None] = row["moves"]
        self.size: Final[str] = row["size"]
        self.kind: Final[str] = row.get("kind", "")
        self.takes: Final[str] = row.get("takes", "")
        self.source: Final[str] = row["source"]

    def __repr__(self) -> str:
        """Short, for Hypothesis and for stories."""
        return f"<{self.path}={self.default!r}>"

    def bytes_at(self, value: object) -> int:
        """Device memory in bytes that `value` takes more than the default does.

        0 at the default and for a setting that takes no memory, a multiple of 2 MiB otherwise,
        negative where less is used. A setting that the audit could not decide has small bytes,
        so that a key may carry it.
        """
        if self.moves is False or self.path in BUDGET:
            return 0
        value = plain(value)
        if value == self.default:
            return 0
        unit = LINEAR.get(self.path)
        if unit is not None and type(value) is int:
            # -1 asks for the largest length that fits, which is what the default stands for.
            return 0 if value < 0 else (value - int(self.default)) * unit
        return _amount(self.path, self.size, self.default, value)


@final
class Variable:
    """One environment variable.

    Attributes:
        name: its name.
        kind: how vLLM reads the text, see `parse`.
        default: the text that stands for its absence; None where there is none.
        alternates: other legal texts.
        hashed: whether it moves `compute_hash()`, through a field that it sets.
        in_compile_factors: whether vLLM's compile cache counts it.
        moves: whether it takes device memory; None where the audit could not tell.
        size: "big", "small" or "".
        source: vLLM file and line; of a variable that vLLM does not register, its documentation.
    """

    __slots__ = (
        "alternates",
        "default",
        "hashed",
        "in_compile_factors",
        "kind",
        "moves",
        "name",
        "size",
        "source",
    )

    def __init__(self, row: Mapping[str, Any]) -> None:
        """Read one row of the data file."""
        self.name: Final[str] = row["name"]
        self.kind: Final[str] = row["kind"]
        self.default: Final[str | None] = row["default"]
        self.alternates: Final[tuple[str, ...]] = tuple(row["alternates"])
        self.hashed: Final[bool] = row["hashed"]
        self.in_compile_factors: Final[bool] = row["in_compile_factors"]
        self.moves: Final[bool | None] = row["moves"]
        self.size: Final[str] = row["size"]
        self.source: Final[str] = row["source"]

    def __repr__(self) -> str:
        """Short, for Hypothesis and for stories."""
        return f"<{self.name}={self.default!r}>"

    def parse(self, raw: str | None) -> Any:
        """What vLLM makes of the text; None means that the variable is not set.

        Raises:
            ValueError: the text is not one that vLLM accepts either.
        """
        text = self.default if raw is None else raw
        return None if text is None else _PARSERS[self.kind](text)

    def bytes_at(self, raw: str | None) -> int:
        """Device memory in bytes that this text takes more than an unset variable does.

        Texts that vLLM reads alike ("1" and "true" of a word) take alike.

        Raises:
            ValueError: the text is not one that vLLM accepts either.
        """
        if self.moves is False:
            return 0
        value, default = self.parse(raw), self.parse(None)
        return 0 if value == default else _amount(self.name, self.size, default, value)


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "choice": str,
    "flag": lambda text: bool(int(text)),
    "float": float,
    "int": int,
    "json": json.loads,
    "list": lambda text: text.split(","),
    "lower": str.lower,
    "not_zero": lambda text: text != "0",
    "one": lambda text: text == "1",
    "str": str,
    "tri": lambda text: bool(int(text)),
    "upper": str.upper,
    "word": lambda text: text.strip().lower() in ("1", "true"),
}

_DATA: Final = load()
VERSION: Final[str] = _DATA["vllm"]
CLASSES: Final[tuple[Mapping[str, Any], ...]] = tuple(_DATA["classes"])
ROWS: Final[tuple[Mapping[str, Any], ...]] = tuple(_DATA["fields"])
"""Every audited field in order, containers included; rows with alternates are settings."""

SETTINGS: Final = tuple(Setting(row) for row in ROWS if "alternates" in row)
VARIABLES: Final = tuple(Variable(row) for row in _DATA["variables"])
EXTRA_VARIABLES: Final = tuple(Variable(row) for row in _DATA["extra_variables"])
"""Variables of the allocator, the libraries and the communicator, which vLLM does not register."""
