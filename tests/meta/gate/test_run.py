# SPDX-License-Identifier: Apache-2.0
"""A run of the gate: what it judges, and what it makes of suites and subjects that go wrong."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.harness.contract import capabilities
from startup_plan.harness.gate.run import GateError, run_gate
from startup_plan.harness.gate.suite import find_suite
from startup_plan.harness.verdict.base import base_of
from startup_plan.harness.verdict.json_form import as_dict
from startup_plan.support.scratch import scratch_folder

if TYPE_CHECKING:
    from startup_plan.harness.verdict.judgement import Report

SOUND = """
@requirement("KEY-01")
def test_sound(tally):
    tally(boots=2)
    tally(boots=1, byte_variants=4)
"""

BROKEN = """
@requirement("KEY-02", "KEY-03")
def test_broken():
    raise Violation("KEY-02", "boot at 0.8 saved\\nboot at 0.3 applied it")
"""


def statuses(report: Report, *ids: str) -> list[str]:
    """Give the statuses of some requirements."""
    by_id = {result.requirement.id: result.status for result in report.results}
    return [by_id[requirement_id] for requirement_id in ids]


def words(report: Report, requirement_id: str) -> str:
    """Give the counterexample or reason of a requirement."""
    (result,) = [r for r in report.results if r.requirement.id == requirement_id]
    return result.counterexample or ""


def test_sound_subject_passes(gate_request: Any) -> None:
    """When all that ran holds the status is 0, and what the tests counted is added up."""
    outcome = run_gate(gate_request(SOUND))

    assert (outcome.status, statuses(outcome.report, "KEY-01"), outcome.report.counters) == (
        0,
        ["holds"],
        {"boots": 3, "examples": 0, "byte_variants": 4},
    )


REAL = """
@pytest.mark.vllm
@requirement("KEY-01")
def test_real():
    raise Violation("KEY-01", "this ran")
"""


@pytest.mark.parametrize("profile", ["quick", "mutation"])
def test_a_quick_run_leaves_real_vllm_out(gate_request: Any, profile: str) -> None:
    """Tests that boot real vLLM are `not-run` in the inner loop, and the reason says how to."""
    report = run_gate(
        gate_request(SOUND + REAL.replace("KEY-01", "KEY-02"), profile=profile)
    ).report

    assert statuses(report, "KEY-01", "KEY-02") == ["holds", "not-run"]
    assert "unless told --require vllm" in words(report, "KEY-02")


def test_a_quick_run_uses_what_is_required(gate_request: Any) -> None:
    """Required, real vLLM is used in every profile; where it is absent, that is a failure."""
    outcome = run_gate(gate_request(REAL, profile="quick", required=("vllm",)))
    present = capabilities.probe("vllm").present

    assert (outcome.status, statuses(outcome.report, "KEY-01")) == (
        1,
        ["violated" if present else "not-run"],
    )


def test_report_proves_what_was_judged(gate_request: Any) -> None:
    """The report names the file that was loaded, its digest, and the machine."""
    report = run_gate(gate_request(SOUND)).report

    assert (report.subject.name, Path(report.subject.file).is_file()) == ("reference", True)
    assert (len(report.subject.sha256), "python" in report.environment) == (64, True)


@pytest.mark.parametrize("workers", [0, 2])
def test_violation_is_tied_to_its_requirement(gate_request: Any, workers: int) -> None:
    """A told violation breaks the id that it names, with its story, with and without workers."""
    outcome = run_gate(gate_request(BROKEN + SOUND, workers=workers))

    assert (
        outcome.status,
        statuses(outcome.report, "KEY-01", "KEY-02", "KEY-03"),
        words(outcome.report, "KEY-02"),
    ) == (1, ["holds", "violated", "not-run"], "boot at 0.8 saved\nboot at 0.3 applied it")


FAILURES = """
from hypothesis import given, strategies as st

@requirement("KEY-01", "KEY-02")
def test_raises():
    raise ValueError("a plan \\\\x00 of steel")

@requirement("KEY-03")
@given(st.integers())
def test_finds(number):
    if number > 999:
        raise Violation(None, f"boot {number} applied it")

@pytest.fixture
def broken():
    raise OSError("no disk")

@requirement("KEY-04")
def test_setup(broken):
    pass

@requirement("KEY-05")
def test_group():
    raise ExceptionGroup("two", [ValueError("x"), Violation("KEY-06", "told in a group")])

@requirement("KEY-07", "KEY-99")
def test_unknown():
    pass

@requirement("KEY-08")
def test_equal():
    assert 1 + 1 == 3
"""


def test_failures_of_every_kind_are_tied(gate_request: Any) -> None:
    """A violation, also from a group, breaks what it names; what else is raised breaks nothing."""
    report = run_gate(gate_request(FAILURES)).report
    found = {r.requirement.id: r.counterexample for r in report.having("violated")}
    lost = {id_: words(report, id_).removeprefix("cannot be judged: ") for id_ in report.undecided}

    assert found == {"KEY-03": "boot 1000 applied it", "KEY-06": "told in a group"}
    assert {id_: told.partition(" (")[0] for id_, told in lost.items()} == {
        "KEY-01": "the suite raised ValueError: a plan \\x00 of steel",
        "KEY-02": "the suite raised ValueError: a plan \\x00 of steel",
        "KEY-04": "the suite raised OSError: no disk",
        "KEY-07": "the suite raised Failed: unknown requirement id 'KEY-99': the nearest are "
        "KEY-09, KEY-17, KEY-16",
        "KEY-08": "the suite raised AssertionError: assert",
    }


def test_what_a_test_cannot_tell_is_no_violation(gate_request: Any) -> None:
    """A test that came to no judgement leaves its sentence undecided, with its words."""
    source = (
        "from startup_plan.harness.contract.violation import UndecidedError\n"
        '@requirement("KEY-01")\ndef test_lost():\n    raise UndecidedError("the lamp went out")\n'
    )
    outcome = run_gate(gate_request(source + SOUND.replace("KEY-01", "KEY-02")))

    assert (
        outcome.status,
        statuses(outcome.report, "KEY-01", "KEY-02"),
        words(outcome.report, "KEY-01"),
    ) == (4, ["not-run", "holds"], "cannot be judged: the lamp went out")


def test_killed_worker_leaves_its_test_undecided(gate_request: Any) -> None:
    """How a process ended is no evidence about the sentence that was being judged, and no pass."""
    source = '@requirement("KEY-01")\ndef test_dies():\n    import os\n    os._exit(9)\n'
    outcome = run_gate(gate_request(source + SOUND.replace("KEY-01", "KEY-02"), workers=1))

    assert (
        outcome.status,
        statuses(outcome.report, "KEY-01", "KEY-02"),
        "process that ran the test died" in words(outcome.report, "KEY-01"),
    ) == (4, ["not-run", "holds"], True)


def test_killed_run_is_no_judgement(gate_request: Any) -> None:
    """Without workers a subject that ends the process ends the run, and that is said."""
    source = '@requirement("KEY-01")\ndef test_dies():\n    import os\n    os.abort()\n'

    with pytest.raises(GateError, match=r"ended by signal 6 \(SIGABRT\)") as caught:
        run_gate(gate_request(source))

    assert caught.value.status == 4


def test_suite_that_cannot_be_collected_is_no_judgement(gate_request: Any) -> None:
    """A suite that fails to import is status 4, with what pytest printed last."""
    with pytest.raises(GateError, match="did not run to its end") as caught:
        run_gate(gate_request(SOUND + "raise RuntimeError('what a mess')"))

    assert (caught.value.status, "what a mess" in caught.value.tail) == (4, True)


def test_empty_suite_is_no_judgement(gate_request: Any) -> None:
    """A suite in which no test is tied to a requirement judges nothing, and says so."""
    with pytest.raises(GateError, match="no test was found"):
        run_gate(gate_request("def test_unmarked():\n    raise AssertionError('ran')\n"))


def test_only_limits_the_run(gate_request: Any) -> None:
    """With `only`, tests of other requirements do not run."""
    outcome = run_gate(gate_request(SOUND + BROKEN, only=("KEY-01",)))

    assert (outcome.status, statuses(outcome.report, "KEY-01", "KEY-02")) == (
        0,
        ["holds", "not-run"],
    )


ALONGSIDE = """
@requirement("KEY-01", "KEY-02")
def test_of_two():
    raise Violation("KEY-02", "boot at 0.3 applied it")
"""


def test_only_limits_the_verdict_and_the_status(gate_request: Any) -> None:
    """What was not asked for is not judged, though it is seen to be violated; that is mentioned."""
    outcome = run_gate(gate_request(SOUND + ALONGSIDE, only=("KEY-01",)))
    asked = run_gate(gate_request(SOUND + ALONGSIDE, only=("KEY-02",)))

    assert (outcome.status, words(outcome.report, "KEY-02"), outcome.report.besides) == (
        0,
        "not asked for",
        {"KEY-02": "boot at 0.3 applied it"},
    )
    assert (asked.status, asked.report.besides) == (1, {})


TWO_KINDS = """
@requirement("KEY-01")
def test_two_kinds():
    told = Violation("KEY-01", "a big number applied it"), Violation("KEY-02", "seven hangs")
    raise ExceptionGroup("Hypothesis found 2 distinct failures.", told)

@requirement("KEY-03")
def test_group_of_strangers():
    head = "Traceback (most recent call last):"
    frames = "".join(f"\\n  File \\"x.py\\", line {n}, in f" for n in range(40))
    raise Violation("KEY-03", head + frames + "\\nit fell")
"""


def test_stories_of_several_violations_are_those_of_each(gate_request: Any) -> None:
    """Where Hypothesis finds several violations each is told as its own, and none as a group."""
    report = run_gate(gate_request(TWO_KINDS)).report
    found = {r.requirement.id: r.counterexample for r in report.having("violated")}

    assert found == {
        "KEY-01": "a big number applied it",
        "KEY-02": "seven hangs",
        "KEY-03": "it fell",
    }


FIRST_FAILS = """
import os

@requirement("KEY-01")
def test_a_fails():
    raise Violation("KEY-01", "it hung")

@requirement("KEY-02")
def test_b_waits():
    os.read(os.pipe()[0], 1)
"""


def test_fail_fast_ends_the_run_at_the_first_violation(gate_request: Any) -> None:
    """With `fail_fast` nothing runs after a violation; the report is partial and says why."""
    outcome = run_gate(gate_request(FIRST_FAILS, fail_fast=True))

    assert (outcome.status, statuses(outcome.report, "KEY-01", "KEY-02")) == (
        1,
        ["violated", "not-run"],
    )
    assert outcome.report.partial == "ended by --fail-fast at the first violation"


def test_fail_fast_runs_to_the_end_where_nothing_fails(gate_request: Any) -> None:
    """A known gap is no violation that ends a run, nor is what was not asked for."""
    gaps = run_gate(gate_request(SOUND + BROKEN, gaps={"KEY-02": "later"}, fail_fast=True))
    only = run_gate(gate_request(SOUND + ALONGSIDE, only=("KEY-01",), fail_fast=True))

    assert [(o.status, o.report.partial) for o in (gaps, only)] == [(0, None)] * 2


def test_fail_fast_passes_over_what_is_inherited(gate_request: Any) -> None:
    """Compared with a base, only what is new ends a run."""
    request = gate_request(SOUND + BROKEN, fail_fast=True)
    base = base_of(as_dict(run_gate(request).report), "theirs")
    outcome = run_gate(replace(request, terms=replace(request.terms, base=base)))

    assert (outcome.status, outcome.report.partial) == (0, None)


RANDOM = """
from hypothesis import given, settings, strategies as st
drawn = []

@requirement("KEY-01")
def test_numbers():
    @settings(max_examples=20)
    @given(st.integers(0, 2**64))
    def draw(number):
        drawn.append(number)
    draw()
    raise Violation("KEY-01", str(hash(tuple(drawn))))
"""


def test_seed_decides_what_is_tried(gate_request: Any) -> None:
    """Equal seeds try equal examples, another seed tries others, none is deterministic."""
    seeds = (None, None, 7, 7, 8)
    reports = [run_gate(gate_request(RANDOM, seed=seed)).report for seed in seeds]
    tried = [words(report, "KEY-01") for report in reports]

    assert (tried[0] == tried[1], tried[2] == tried[3], len(set(tried))) == (True, True, 3)
    assert [report.suite.seed for report in reports] == list(seeds)


def test_profile_decides_how_much_is_tried(gate_request: Any) -> None:
    """`quick` tries fewer examples than `ci`."""
    source = """
from hypothesis import given, strategies as st

@requirement("KEY-01")
@given(st.integers())
def test_numbers(tally, number):
    tally(examples=1)
"""
    counts = [
        run_gate(gate_request(source, profile=profile)).report.counters["examples"]
        for profile in ("quick", "ci")
    ]

    assert counts == [10, 100]


def test_local_source_does_not_decide_what_is_tried(gate_request: Any) -> None:
    """Hypothesis draws no constants from the modules that happen to lie in a checkout."""
    source = """
import sys, types
from hypothesis.internal.conjecture import providers

@requirement("KEY-01")
def test_constants(subject):
    sys.modules["extra"] = module = types.ModuleType("extra")
    module.__file__ = subject.file
    assert len(providers.HypothesisProvider(None)._local_constants) == 0
"""
    report = run_gate(gate_request(source)).report

    assert words(report, "KEY-01") == ""


WORLDS = """
@requirement("KEY-01")
def test_world(world, fresh_folder):
    from pathlib import Path
    assert Path(world.cache_root).parent.is_dir()
    assert not list(fresh_folder().iterdir())
    raise Violation("KEY-01", str(Path(world.cache_root).parent))

@requirement("KEY-02")
def test_factory(world_factory):
    first, second = world_factory(), world_factory(devices=[])
    assert first.cache_root != second.cache_root
    assert second.devices == []
"""


def test_worlds_lie_in_scratch_and_leave_nothing(gate_request: Any) -> None:
    """Every world has a disk of its own, and all of them are gone after the run."""
    report = run_gate(gate_request(WORLDS)).report

    assert (statuses(report, "KEY-01", "KEY-02"), Path(words(report, "KEY-01")).exists()) == (
        ["violated", "holds"],
        False,
    )


def test_scratch_goes_though_a_test_locked_it(tmp_path: Path) -> None:
    """A folder that a test made inaccessible is removed all the same; no link is followed."""
    outside = tmp_path / "outside"
    outside.mkdir(0o500)
    with scratch_folder(tmp_path) as folder:
        locked = folder / "a" / "b"
        locked.mkdir(parents=True)
        (locked / "file").touch()
        (folder / "link").symlink_to(outside)
        locked.chmod(0)
        locked.parent.chmod(0)

    assert (folder.exists(), stat.S_IMODE(outside.stat().st_mode)) == (False, 0o500)


def test_environment_does_not_disturb_the_run(
    gate_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that the user's shell gives to pytest are not for the gate."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "no-such-profile")

    assert run_gate(gate_request(SOUND)).status == 0


def test_suite_is_found_in_the_checkout() -> None:
    """The gate finds the suite that belongs to this package."""
    suite = find_suite()

    assert (suite / "tests" / "property").is_dir()
