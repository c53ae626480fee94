# SPDX-License-Identifier: Apache-2.0
"""What stub configs hold besides plain values: vLLM's enums and objects of other libraries.

Member names and values as in vLLM 0.33.0, except that an attention backend's value there is the
path of its class.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALARS: Final = frozenset({type(None), bool, int, float, str})
"""Types that are never copied and whose repr() tells two values apart."""


class CompilationMode(enum.IntEnum):
    """How `torch.compile` is used (config/compilation.py)."""

    NONE = 0
    STOCK_TORCH_COMPILE = 1
    DYNAMO_TRACE_ONCE = 2
    VLLM_COMPILE = 3


class CUDAGraphMode(enum.Enum):
    """Which CUDA graphs are captured; a pair is (decode, mixed) (config/compilation.py)."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (2, 0)
    FULL_AND_PIECEWISE = (2, 1)


class OptimizationLevel(enum.IntEnum):
    """Start-up time against speed (config/vllm.py)."""

    O0 = 0
    O1 = 1
    O2 = 2
    O3 = 3


class DynamicShapesType(str, enum.Enum):  # noqa: UP042 - as in vLLM, whose str() is not the value
    """How dynamic shapes are guarded (config/compilation.py)."""

    BACKED = "backed"
    UNBACKED = "unbacked"
    BACKED_SIZE_OBLIVIOUS = "backed_size_oblivious"


class MambaBackendEnum(enum.Enum):
    """State-space kernels (config/mamba.py)."""

    TRITON = "triton"
    FLASHINFER = "flashinfer"


class AttentionBackendEnum(enum.Enum):
    """A few of the attention backends (v1/attention/backends/registry.py)."""

    FLASH_ATTN = "flash_attn"
    FLASHINFER = "flashinfer"
    TRITON_ATTN = "triton_attn"
    FLEX_ATTENTION = "flex_attention"


class MLAPrefillBackendEnum(enum.Enum):
    """A few of the MLA prefill backends (v1/attention/backends/mla/prefill/registry.py)."""

    FLASH_ATTN = "flash_attn"
    FLASHINFER = "flashinfer"
    TRTLLM_RAGGED = "trtllm_ragged"


class Opaque:
    """An object that is no dataclass: its state is in its attributes, as given."""

    def __init__(self, **state: Any) -> None:
        """Keep each argument as an attribute."""
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        """Equal by class and state."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The state, as a call that would make it again."""
        return f"{type(self).__name__}({self.__dict__!r})"

    def __plain__(self) -> dict[str, Any]:
        """The JSON that stands for it, see `settings.plain`."""
        return dict(self.__dict__)


class PretrainedConfig(Opaque):
    """The part of a Hugging Face model configuration that vLLM hashes."""

    def to_dict(self) -> dict[str, Any]:
        """The whole state, a copy."""
        state: dict[str, Any] = clone(self.__dict__)
        return state

    def to_json_string(self, use_diff: bool = True) -> str:
        """Stable text of the state; `use_diff` is accepted and has nothing to leave out."""
        del use_diff
        return json.dumps(self.__dict__, sort_keys=True)


class QuantizationConfig(Opaque):
    """What a checkpoint says about its quantization, read from its own file or from a side file."""

    def get_name(self) -> str:
        """The method, as the real classes answer it."""
        name: str = self.__dict__["name"]
        return name


ENUMS: Final[Mapping[str, type[enum.Enum]]] = {
    cls.__name__: cls
    for cls in (
        CompilationMode,
        CUDAGraphMode,
        OptimizationLevel,
        DynamicShapesType,
        MambaBackendEnum,
        AttentionBackendEnum,
        MLAPrefillBackendEnum,
    )
}
OPAQUE: Final[Mapping[str, type[Opaque]]] = {
    cls.__name__: cls for cls in (PretrainedConfig, QuantizationConfig)
}


def clone(value: Any) -> Any:
    """A deep copy of what a config may hold, many times faster than `copy.deepcopy`.

    Fields that a class lists as `__shared__` name objects elsewhere in the tree and are not copied.
    """
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is list:
        return [clone(item) for item in value]
    if kind is set:
        return set(value)
    if isinstance(value, dict):
        copy = value.copy()
        for key, item in value.items():
            if type(item) not in SCALARS:
                copy[key] = clone(item)
        return copy
    if isinstance(value, Opaque) or dataclasses.is_dataclass(value):
        new = object.__new__(kind)
        new.__dict__ = state = value.__dict__.copy()
        shared = getattr(kind, "__shared__", ())
        for key, item in value.__dict__.items():
            if type(item) not in SCALARS and key not in shared:
                state[key] = clone(item)
        return new
    return value
