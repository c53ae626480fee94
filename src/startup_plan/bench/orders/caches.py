# SPDX-License-Identifier: Apache-2.0
"""Private caches, so that nothing is warm by accident.

Every folder that vLLM, torch, Triton and the kernel libraries below them fill on their own is moved
below the output folder. Model weights are not: downloading them again is no part of a start-up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final

from startup_plan.support.environment import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FOLDERS: Final[Mapping[str, str]] = {
    ROOT: "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "flashinfer_autotune",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "TILELANG_CACHE_DIR": "tilelang",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
    "FLYDSL_RUNTIME_CACHE_DIR": "flydsl",
    "CUTE_DSL_CACHE_DIR": "cute_dsl",
    "NUMBA_CACHE_DIR": "numba",
    "OUTLINES_CACHE_DIR": "outlines",
    "VLLM_XLA_CACHE_PATH": "xla",
    "NEURON_COMPILE_CACHE_URL": "neuron",
    "MIOPEN_USER_DB_PATH": "miopen_db",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
    "XDG_CACHE_HOME": "xdg",
}
"""Variable that names a cache: its folder below the private caches."""

_WEIGHTS: Final = {
    "HF_HOME": "huggingface",
    "MODELSCOPE_CACHE": "modelscope",
    "VLLM_ASSETS_CACHE": "vllm/assets",
}
"""Variable that names a store of downloads: where it lies below the user's own cache folder."""


def cache_environment(root: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Point every cache below `root`, and downloads to where they were."""
    moved = {name: str(root / folder) for name, folder in FOLDERS.items()}
    home = inherited.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for name, folder in _WEIGHTS.items():
        # Moving XDG_CACHE_HOME would move these along, and every boot would download anew.
        moved[name] = inherited.get(name) or os.path.join(home, folder)
    return moved


def make_caches(root: Path) -> None:
    """Make the empty folders.

    Raises:
        OSError: they cannot be made, or exist already.
    """
    root.mkdir(parents=True)
    for folder in FOLDERS.values():
        (root / folder).mkdir()


@contextlib.contextmanager
def on_a_copy(root: Path) -> Iterator[None]:
    """Let somebody use a copy of the caches, at their own path, and put the original back.

    The path stays the same because compile artifacts may hold it. Beside the caches remain
    `.initial`, which nobody has used, and `.after-first-reload`, the copy as it was left.
    """
    initial = root.with_name(f"{root.name}.initial")
    used = root.with_name(f"{root.name}.after-first-reload")
    root.rename(initial)
    _copy(initial, root)
    try:
        yield
    finally:
        root.rename(used)
        _copy(initial, root)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=_sockets)


def _sockets(folder: str, names: list[str]) -> list[str]:
    # What a server leaves in a cache besides files and folders cannot be copied, nor read back.
    entries = ((name, os.path.join(folder, name)) for name in names)
    return [
        name
        for name, path in entries
        if not (os.path.islink(path) or os.path.isfile(path) or os.path.isdir(path))
    ]
