# SPDX-License-Identifier: Apache-2.0
"""A layer whose control does not behave judges nobody, and says what the control did."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

import pytest

from startup_plan.harness.cards.card import CardBusyError
from startup_plan.harness.cards.controls import card_control
from startup_plan.harness.cards.simulated import SimulatedCard
from startup_plan.harness.census import controls as census_controls
from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.control import REFERENCE, Control
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.gate.run import run_gate
from startup_plan.harness.kernel import controls as kernel_controls
from startup_plan.harness.kernel.trace import KernelError
from startup_plan.harness.operations import controls as user_controls
from startup_plan.harness.real_vllm import controls as worker_controls
from startup_plan.harness.real_vllm.tried import tried, untried
from startup_plan.harness.session import controls
from startup_plan.harness.stubs.state import Device
from startup_plan.harness.stubs.units import GIB, MIB
from startup_plan.harness.verdict.judgement import Evidence
from startup_plan.harness.verdict.terminal import closing
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.outcome import BootResult
from startup_plan.harness.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.meta.conftest import Judge

    from startup_plan.harness.verdict.judgement import Report

WORDS = "a boot with the feature off raised in 'groups'"

SUITE = """
from startup_plan.harness.contract.control import REFERENCE, Control
from startup_plan.harness.contract.violation import Violation

def attempt(folder):
    with open({log!r}, "a") as stream:
        stream.write("tried\\n")
    {attempt}

BROKEN = pytest.mark.control(Control("ptrace", "fake", attempt))

@BROKEN
@requirement("BOOT-01")
@pytest.mark.parametrize("number", range(4))
def test_one(number):
    {test}

@requirement("KEY-01")
def test_other():
    pass
"""


@pytest.fixture
def report_of(gate_request: Any, tmp_path: Path) -> Callable[..., Report]:
    """Judges by a small suite whose control does `attempt`."""

    def judge(
        attempt: str, test: str = "raise Violation('BOOT-01', 'broken')", **options: Any
    ) -> Any:
        source = SUITE.format(log=str(tmp_path / "log"), attempt=attempt, test=test)
        return run_gate(gate_request(source, **options)).report

    return judge


@pytest.mark.parametrize("attempt", [f'return "{WORDS}"', f'raise RuntimeError("{WORDS}")'])
def test_nothing_is_blamed_on_the_subject(report_of: Callable[..., Report], attempt: str) -> None:
    """Where the control does not behave, the requirement is not run, with the control's words."""
    rows = {result.requirement.id: result for result in report_of(attempt).results}
    said = rows["BOOT-01"].counterexample or ""

    assert (rows["BOOT-01"].status, rows["KEY-01"].status) == ("not-run", "holds")
    assert (controls.FAILED in said, WORDS in said) == (True, True)


def test_a_required_layer_fails_the_run(report_of: Callable[..., Report]) -> None:
    """With `--require`, a control that does not behave fails the run and says so."""
    report = report_of(f'return "{WORDS}"', required=("ptrace",))

    assert (report.exit_status, WORDS in report.lacking["ptrace/fake"]) == (1, True)
    assert report.having("violated") == ()


def test_a_control_that_behaves_lets_its_layer_judge(report_of: Callable[..., Report]) -> None:
    """Where the control behaves, a violation is one, and the report names the control."""
    report = report_of('return ""')
    probed: Any = report.environment["capabilities"]

    assert [result.requirement.id for result in report.having("violated")] == ["BOOT-01"]
    assert probed["ptrace/fake"] == {"present": True, "reason": controls.BEHAVED}


def test_a_control_is_done_once_a_run(report_of: Callable[..., Report], tmp_path: Path) -> None:
    """Several tests in several workers ask for one control, and it is done once."""
    report_of('return ""', "pass", workers=2)

    assert (tmp_path / "log").read_text() == "tried\n"


OFF = BootResult(measured=5, kv=5)
SAVED = BootResult(measured=5, kv=5, suggestion=4)
APPLIED = BootResult(applied=4, kv=4)
UNABLE = BootResult(raised=NotImplementedError("aten::empty_strided"))


@pytest.mark.parametrize(
    ("boots", "words"),
    [
        ((OFF, SAVED, APPLIED), ""),
        ((UNABLE,), "no startup plan had a part in that"),
        ((BootResult(hung=True),), "no startup plan had a part in that"),
        ((BootResult(),), "and measured no memory"),
        ((OFF, UNABLE, APPLIED), "that is the reference's, which keeps the contract"),
        ((OFF, SAVED, SAVED), "and the reference did not apply what it had saved"),
    ],
)
def test_a_worker_that_fails_its_control_is_described(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, boots: tuple[BootResult, ...], words: str
) -> None:
    """A worker that fails with the feature off, or fails the reference, is told by what it did."""
    left = list(boots)

    class Fake:
        version = "0.28.0"

        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def boot(self, _: object) -> list[BootResult]:
            return [left.pop(0)]

    monkeypatch.setattr(worker_controls, "Booter", Fake)
    found = worker_controls.WORKER.attempt(tmp_path)

    assert found.endswith(words)
    assert bool(found) == bool(words)
    assert found.startswith("vLLM 0.28.0, one rank: ") == bool(words)


LAYERS: tuple[tuple[Control, Any, str], ...] = (
    (kernel_controls.TRACED, kernel_controls, "KernelSave"),
    (kernel_controls.MOUNTED, kernel_controls, "mount_memory"),
    (user_controls.USERS, user_controls, "run_isolated"),
    (census_controls.CONFIGURATIONS, census_controls, "look"),
)


@pytest.mark.parametrize(("control", "module", "part"), LAYERS, ids=lambda value: str(value)[:20])
def test_a_layer_that_is_broken_fails_its_control(
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    control: Control,
    module: Any,
    part: str,
) -> None:
    """A control does not behave where what its layer stands on does not."""

    def broken(*_: object, **__: object) -> None:
        raise KernelError("broken on purpose")

    monkeypatch.setattr(module, part, broken)
    behaved, words = controls.stand(pytestconfig, Control("broken", part, control.attempt))

    assert (behaved, "broken on purpose" in words) == (False, True)


@pytest.mark.parametrize("control", [layer[0] for layer in LAYERS[:3]], ids=lambda c: c.name)
def test_controls_behave_on_this_machine(pytestconfig: pytest.Config, control: Control) -> None:
    """A control asks for no more than what its capability has shown to be there."""
    if not capabilities.probe(control.capability).present:
        pytest.skip(capabilities.probe(control.capability).reason)

    assert controls.stand(pytestconfig, control) == (True, controls.BEHAVED)


@pytest.mark.parametrize(("total", "behaves"), [(8 * GIB, True), (MIB, False)])
def test_a_card_is_tried_with_the_reference(tmp_path: Path, total: int, *, behaves: bool) -> None:
    """A card on which the reference and a boot with the feature off come to serve may judge."""

    @contextlib.contextmanager
    def opened(folder: Path) -> Iterator[SimulatedCard]:
        with World(load_subject(REFERENCE), folder, [Device(total=total)]) as world:
            yield SimulatedCard(world, 1)

    control = card_control(opened)
    try:
        found = control.attempt(tmp_path)
    except (CardBusyError, Violation) as error:
        found = str(error)

    assert (control.name, not found) == ("gpu/card", behaves)


def test_a_release_that_was_never_tried_is_told() -> None:
    """A release outside the list has a sentence; those in the list, and none at all, have none."""
    assert untried("99.0.0") == "vLLM 99.0.0 was never tried with this harness"
    assert [untried(release) for release in (*tried(), f"{tried()[-1]}+cpu", None)] == [None] * (
        len(tried()) + 2
    )


@pytest.mark.parametrize(
    ("stood", "remark"),
    [
        ({"vllm/worker": True, "vllm/group": True}, "never tried; its controls behave"),
        ({"vllm/worker": True, "vllm/group": False}, "never tried; its controls do not all behave"),
        ({"vllm": True}, ""),
    ],
)
def test_the_report_tells_of_it(judge: Judge, stood: dict[str, bool], remark: str) -> None:
    """Where such a release has judged, the report says so, and what the controls did."""
    evidence = Evidence(probed={name: (there, "words") for name, there in stood.items()})
    report = judge(evidence=evidence, environment={"vllm_untried": "never tried"})

    assert report.remark == remark
    assert [line.text for line in closing(report) if line.text.startswith("note")] == (
        [f"note     {remark}"] if remark else []
    )
