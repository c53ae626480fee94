# SPDX-License-Identifier: Apache-2.0
"""In every process that runs tests: which tests may run, and what each had to say."""

from __future__ import annotations

import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, final

import pytest
from hypothesis.errors import Flaky

from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.control import capability_of
from startup_plan.harness.contract.violation import (
    NeverReachedError,
    UndecidedError,
    Violation,
)
from startup_plan.harness.stubs.unknown import unknown_names
from startup_plan.harness.verdict.record import NEVER_REACHED, Finding, Outcome, Record, clean
from startup_plan.harness.verdict.stories import without_noise
from startup_plan.support.seal import described

from .controls import controls_of, stand
from .watchdog import HungError, SlowError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping

    from startup_plan.harness.contract.register import Register
    from startup_plan.harness.verdict.judgement import Terms

    from .guard import Guard

PROPERTY: Final = "startup-plan-record"
"""The name under which a record travels in `report.user_properties`."""

_LONGEST: Final = 300

_WITHOUT_A_PLAN: Final = frozenset({"BOOT-01", "BOOT-07"})
"""What is broken by a subject that never comes to apply a plan, or raises where it should."""
_NONE_APPLIED: Final = (
    "a plan that is applied; this subject applies none where nothing has changed since it was "
    "saved (BOOT-01)"
)

_Said = TypeVar("_Said", Violation, NeverReachedError)


@final
class Account:
    """What is known of a test while it runs."""

    __slots__ = (
        "counters", "findings", "lacks", "outcome", "probed", "seconds", "story", "told",
        "undecided", "violated",
    )  # fmt: skip

    def __init__(self) -> None:
        """Nothing is known, and nothing has failed."""
        self.counters: Counter[str] = Counter()
        self.findings: tuple[Finding, ...] = ()
        self.lacks: str | None = None
        self.outcome: Outcome = "passed"
        self.probed: dict[str, tuple[bool, str]] = {}
        self.seconds = 0.0
        self.story = ""
        self.told = False
        self.undecided = False
        self.violated: tuple[str, ...] = ()

    def distrust(self, story: str) -> None:
        """Take back whatever the test found: it was cut short, or nothing in it can be trusted."""
        self.outcome, self.undecided, self.told = "failed", True, True
        self.story, self.violated, self.findings = story, (), ()


_ACCOUNT: Final = pytest.StashKey[Account]()

TERMS: Final = pytest.StashKey["Terms"]()
"""By what the session judges."""


def account_of(item: pytest.Item) -> Account:
    """Give the account of a test, opened when it is first asked for."""
    return item.stash.setdefault(_ACCOUNT, Account())


def lacking(
    config: pytest.Config, name: str, reason: str, item: pytest.Item | None = None
) -> NoReturn:
    """End a test, or what it is set up with, for want of a capability: a failure if required.

    Args:
        config: of the session.
        name: the capability, or a control of its layer.
        reason: what is missing, for a person to read.
        item: the test, where it is known.
    """
    if item is not None:
        account_of(item).lacks = name
    if capability_of(name) in config.stash[TERMS].required:
        pytest.fail(f"required capability {name}: {reason}", pytrace=False)
    pytest.skip(f"capability {name}: {reason}")


def requirement_ids(item: pytest.Item) -> tuple[str, ...]:
    """Give the ids that a test carries, each once, the nearest marker first."""
    ids = (str(given) for mark in item.iter_markers("requirement") for given in mark.args)
    return tuple(dict.fromkeys(ids))


def needed_capabilities(item: pytest.Item) -> tuple[str, ...]:
    """Give the capabilities without which a test cannot run."""
    named = [str(given) for mark in item.iter_markers("needs") for given in mark.args]
    implied = [name for name in ("gpu", "vllm") if item.get_closest_marker(name) is not None]
    return tuple(dict.fromkeys((*named, *implied)))


@final
class Known:
    """What the try-out found of the subject; complete before the first test.

    Attributes:
        does_without: what it asks the simulation for in vain, without harm.
        applies: whether it applies a plan at all.
    """

    __slots__ = ("applies", "does_without")

    def __init__(self, does_without: Collection[str] = (), *, applies: bool = True) -> None:
        """Nothing out of the ordinary, unless told."""
        self.does_without = list(does_without)
        self.applies = applies


@final
class Witness:
    """Hooks around every test.

    Args:
        terms: by what the subject is judged; a known gap is an expected failure.
        guard: knows what a subject did to this process.
        known: what is known of the subject.
        marked_only: leave out tests that belong to no requirement.
        spared: capabilities that are not used unless they are required, and why.
    """

    def __init__(
        self,
        terms: Terms,
        guard: Guard,
        known: Known,
        *,
        marked_only: bool,
        spared: Mapping[str, str],
    ) -> None:
        """Keep the choices that the run was started with."""
        self._known = known
        self._terms = terms
        self._register = terms.register
        self._guard = guard
        self._marked_only = marked_only
        self._spared = {n: why for n, why in spared.items() if n not in terms.required}

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what was not asked for."""
        chosen: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            (chosen if self._is_wanted(requirement_ids(item)) else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = chosen

    def _is_wanted(self, ids: tuple[str, ...]) -> bool:
        if self._terms.only:
            return not set(self._terms.only).isdisjoint(ids)
        return bool(ids) or not self._marked_only

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Refuse a test of an unknown requirement, and skip one for which something is missing."""
        unknown_names.clear()
        for requirement_id in requirement_ids(item):
            if requirement_id not in self._register:
                pytest.fail(self._register.describe_unknown(requirement_id), pytrace=False)
        account = account_of(item)
        for name in needed_capabilities(item):
            if name not in capabilities.names():
                pytest.fail(capabilities.describe_unknown(name), pytrace=False)
            if name in self._spared:
                account.lacks = name
                pytest.skip(f"capability {name}: {self._spared[name]}")
            capability = capabilities.probe(name)
            account.probed[name] = (capability.present, capability.reason)
            if capability.present:
                continue
            lacking(item.config, name, capability.reason, item)
        for control in controls_of(item):
            behaved, words = account.probed[control.name] = stand(item.config, control)
            if not behaved:
                lacking(item.config, control.name, words, item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Take note of each phase, and hand in the record with the last."""
        report = yield
        account, ids = account_of(item), requirement_ids(item)
        account.seconds += call.duration
        if report.failed and call.excinfo is not None:
            self._note_failure(account, ids, call.excinfo.value)
            self._excuse(report, account)
            if account.outcome == "skipped":
                report.outcome = "skipped"
                report.longrepr = (item.nodeid, 0, f"Skipped: {account.story}")
        elif report.skipped and account.outcome == "passed":
            account.outcome = "skipped"
            account.story = _skip_reason(report)
        if report.when == "teardown":
            if replaced := self._guard.broken_seal():
                account.distrust(f"the subject {described(replaced)}")
                report.outcome, report.longrepr = "failed", account.story
            record = Record(
                nodeid=item.nodeid,
                ids=ids,
                outcome=account.outcome,
                violated=account.violated,
                story=clean(without_noise(account.story)),
                told=account.told,
                undecided=account.undecided,
                lacks=account.lacks,
                findings=account.findings,
                seconds=account.seconds,
                counters=dict(account.counters),
                probed=account.probed,
            )
            report.user_properties.append((PROPERTY, record.to_json()))
        return report

    def _note_failure(self, account: Account, ids: tuple[str, ...], error: BaseException) -> None:
        if account.outcome == "failed":
            return
        if account.lacks is not None:
            account.outcome, account.story = "failed", str(error)
            return
        violation = _find(error, Violation)
        beyond = [name for name in unknown_names if name not in self._known.does_without]
        if isinstance(error, HungError) and len(ids) == 1:
            account.outcome, account.story, account.violated = "failed", str(error), ids
        elif isinstance(error, HungError):
            account.distrust(f"{error}, in a test of {' and '.join(ids)}")
        elif beyond and not isinstance(error, SlowError):
            # What the simulation cannot answer says nothing about the subject.
            account.distrust(beyond[0])
        elif violation is not None:
            self._note_violation(account, ids, error, violation)
        elif missing := _find(error, NeverReachedError):
            account.outcome, account.story = "skipped", f"{NEVER_REACHED}{missing}"
        elif isinstance(error, (SlowError, UndecidedError)):
            account.distrust(str(error))
        else:
            # Not one word of it is about a sentence: it is the suite that does not know this case.
            account.distrust(f"the suite {_story_of(error)}")

    def _note_violation(
        self, account: Account, ids: tuple[str, ...], error: BaseException, violation: Violation
    ) -> None:
        findings = _findings(error, ids, self._register)
        if not self._known.applies:
            # Whatever should have led to a plan that is applied ends like this one.
            findings = tuple(each for each in findings if each.requirement in _WITHOUT_A_PLAN)
        if not findings:
            account.outcome, account.story = "skipped", f"{NEVER_REACHED}{_NONE_APPLIED}"
            return
        account.outcome, account.told, account.story = "failed", True, violation.story
        account.findings = findings
        account.violated = tuple(dict.fromkeys(each.requirement for each in findings))

    def _excuse(self, report: pytest.TestReport, account: Account) -> None:
        """Turn the failure of a known gap into an expected one."""
        if account.violated and self._terms.gaps.keys() >= set(account.violated):
            report.outcome = "skipped"
            report.wasxfail = f"known gap: {self._terms.gaps[account.violated[0]]}"


def _findings(error: BaseException, ids: Collection[str], known: Register) -> tuple[Finding, ...]:
    """Give every violation in an exception; one that names no requirement breaks each of `ids`."""
    if isinstance(error, Violation):
        named = [error.requirement] if error.requirement in known else list(ids)
        evidence = tuple(clean(one) for one in error.evidence)
        story = clean(without_noise(error.story))
        return tuple(Finding(str(one), story, evidence) for one in named)
    if isinstance(error, BaseExceptionGroup) and not isinstance(error, Flaky):
        return tuple(one for part in error.exceptions for one in _findings(part, ids, known))
    return ()


def _find(error: BaseException, kind: type[_Said]) -> _Said | None:
    """Find what a test said in an exception, also where Hypothesis raised several as a group."""
    if isinstance(error, kind):
        return error
    # What Hypothesis calls flaky holds what it has seen once, and not again.
    if isinstance(error, BaseExceptionGroup) and not isinstance(error, Flaky):
        for part in error.exceptions:
            if (found := _find(part, kind)) is not None:
                return found
    return None


def _story_of(error: BaseException) -> str:
    """What a test raised that is no verdict, on one line, and the last place in it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    head = " ".join(f"raised {type(error).__name__}: {error}".split()).rstrip(": ")
    return f"{head[:_LONGEST]}{where}"


def _skip_reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", "") or report.longrepr or "skipped")
