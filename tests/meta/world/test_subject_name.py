# SPDX-License-Identifier: Apache-2.0
"""The one string that names a subject to every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.world.subject_name import SubjectName

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name",
    [
        SubjectName("reference"),
        SubjectName("a file.py", on="b.whl!c/startup_plan.py"),
        SubjectName("a.b", adapter="it's.py"),
        SubjectName("a.py", on="vllm", adapter="c.py"),
    ],
)
def test_a_name_survives_its_journey(name: SubjectName) -> None:
    """What one process wrote as one argument, another reads as the same parts."""
    assert SubjectName.parse(str(name)) == name


def test_a_name_means_the_same_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are named by their full paths, a member of a wheel too; what is no file stays."""
    for file in ("plan.py", "below.whl", "adapter.py"):
        (tmp_path / file).touch()
    (tmp_path / "package").mkdir()
    monkeypatch.chdir(tmp_path)
    anywhere = SubjectName("plan.py", "below.whl!vllm/startup_plan.py", "adapter.py").anywhere()

    assert (anywhere.name, anywhere.on, anywhere.adapter) == (
        f"{tmp_path}/plan.py",
        f"{tmp_path}/below.whl!vllm/startup_plan.py",
        f"{tmp_path}/adapter.py",
    )
    assert SubjectName("package").anywhere() == SubjectName("package")
