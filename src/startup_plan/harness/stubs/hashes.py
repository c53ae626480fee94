# SPDX-License-Identifier: Apache-2.0
"""What `compute_hash()` of each stub config reads: what the real one reads, and nothing else.

The factors of a class are composed once at import into a few C calls, because the world asks for
the hash at every simulated boot: well under 100 microseconds for the whole config.
"""

from __future__ import annotations

from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from .settings import ROWS
from .values import ENUMS, SCALARS, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = Mapping[str, Any]
    Factors = Callable[[Any], object]

AUX_METHODS: Final = frozenset({"eagle3", "extract_hidden_states", "dflash", "dspark"})
"""Speculative methods that add hidden states to the graph (config/speculative.py:676)."""

FACTORS: Final[dict[type[Any], Factors]] = {}
"""Class -> reader of its hashed fields; `vllm_configs` enters each class that it makes."""


def name_of(row: Row) -> str:
    """The field that `row` is about."""
    field: str = row["path"].rpartition(".")[2]
    return field


def getter(names: Sequence[str]) -> Factors:
    """Reads all of `names` at once; nothing to read is an empty tuple."""
    return attrgetter(*names) if names else lambda _: ()


def digest(factors: object) -> str:
    """SHA-256 of factors whose repr() tells them apart."""
    return sha256(repr(factors).encode()).hexdigest()


def canonical(value: Any) -> Any:
    """`value` in a form whose repr() does not depend on the order of a dict or a set."""
    kind = type(value)
    if kind in SCALARS:
        return value
    factors = FACTORS.get(kind)
    if factors is not None:
        return factors(value)
    if isinstance(value, Opaque):
        value = value.__dict__
    if isinstance(value, dict):
        items = sorted(value.items())
        flat = SCALARS.issuperset(map(type, value.values()))
        return items if flat else [(key, canonical(item)) for key, item in items]
    if kind is list or kind is tuple:
        flat = SCALARS.issuperset(map(type, value))
        return value if flat else [canonical(item) for item in value]
    return sorted(value) if kind is set else value


def _unordered(value: Any) -> Any:
    """LoRA target modules are hashed in sorted order (config/lora.py:112)."""
    return sorted(value) if value else None


def _member(value: Any) -> Any:
    """The name of an enum member, whose repr() would take as long as a whole part's."""
    return getattr(value, "_name_", value)


def _is_scalar(row: Row) -> bool:
    seen = (row.get("default"), row.get("filled"), *row.get("alternates", ()))
    structured = "part" in row or "type" in row
    return not structured and all(type(value) in SCALARS for value in seen)


def _reader(row: Row) -> Factors:
    if name_of(row) == "target_modules":
        return _unordered
    one_member = row.get("type") in ENUMS and not isinstance(row["default"], dict)
    return _member if one_member else canonical


def _hashed(rows: Sequence[Row]) -> Factors:
    """Reads those of `rows` that are hashed, parts by their own factors."""
    hashed = [row for row in rows if row["hashed"]]
    scalars = getter([name_of(row) for row in hashed if _is_scalar(row)])
    others = [row for row in hashed if not _is_scalar(row)]
    if not others:
        return scalars
    names = [name_of(row) for row in others]
    readers = [_reader(row) for row in others]
    if len(others) == 1:
        read_one, one = readers[0], attrgetter(*names)
        return lambda self: (scalars(self), read_one(one(self)))
    rest = attrgetter(*names)
    return lambda self: (
        scalars(self),
        [read(value) for read, value in zip(readers, rest(self), strict=True)],
    )


def _multimodal(rows: Sequence[Row]) -> Factors:
    """What `ModelConfig` hashes of its multimodal part (config/model.py:508): counts, on or off."""
    common = _hashed(rows)

    def factors(self: Any) -> object:
        counts = [
            (modality, limit if isinstance(limit, int) else limit.count)
            for modality, limit in sorted(self.limit_per_prompt.items())
        ]
        return common(self), counts, bool(self.video_pruning_rate)

    return factors


def _speculative(rows: Sequence[Row]) -> Factors:
    """Of the method only what it adds to the graph counts (config/speculative.py:673)."""
    common = _hashed(rows)

    def factors(self: Any) -> object:
        adaptive = self.enable_adaptive_verification if self.method == "dspark" else None
        return common(self), self.method in AUX_METHODS, adaptive

    return factors


_SPECIAL: Final[Mapping[str, Callable[[Sequence[Row]], Factors]]] = {
    "MultiModalConfig": _multimodal,
    "SpeculativeConfig": _speculative,
}

ENCODER: Final = getter([name_of(row) for row in ROWS if row.get("kind") == "compile_mm_encoder"])
"""What `MultiModalConfig.compute_hash()` reads; counts only while the encoder is compiled too."""


def factors_of(class_name: str, rows: Sequence[Row]) -> Factors:
    """The reader of all that is hashed of the class with these rows."""
    return _SPECIAL.get(class_name, _hashed)(rows)


def part_hash(factors: Factors) -> Callable[[Any], str]:
    """The method `compute_hash` of a part of the config."""

    def compute_hash(self: Any) -> str:
        """Digest of the fields that vLLM hashes for this part."""
        return digest(factors(self))

    return compute_hash


def engine_hash(factors: Factors, version_of: Callable[[], str]) -> Callable[..., str]:
    """The method `compute_hash` of the whole config."""

    def compute_hash(self: Any, include_version: bool = True) -> str:
        """Digest of all that vLLM hashes, 10 hexadecimal characters.

        `_hash_override` on the instance is returned as it is, `_hash_salt` is folded in; neither
        is a field. They let a test vary the hash alone.
        """
        if self._hash_override is not None:
            override: str = self._hash_override
            return override
        model, compilation = self.model_config, self.compilation_config
        compiled = model and compilation and compilation.compile_mm_encoder
        encoder = model.multimodal_config if compiled else None
        version = version_of() if include_version else None
        whole = (version, self._hash_salt, factors(self), encoder and ENCODER(encoder))
        return digest(whole)[:10]

    return compute_hash
