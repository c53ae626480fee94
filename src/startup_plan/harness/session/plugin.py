# SPDX-License-Identifier: Apache-2.0
"""Options, markers and fixtures of the suite, in any pytest session.

A test says what it judges, and what it counted:

    @pytest.mark.requirement("KEY-02")
    def test_utilization_enters_the_key(world, tally):
        ...
        tally(boots=2, examples=1)

A `Violation` with an id breaks that requirement, one without an id every requirement that the test
carries. `NeverReachedError` says that this subject does not bring the test to its point. Any other
failure is the suite's own, and decides nothing.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract import capabilities, choices, profiles
from startup_plan.harness.contract.known_gaps import KnownGapsError, load_known_gaps
from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate import events as gate_events
from startup_plan.harness.gate.events import EventReader, EventWriter
from startup_plan.harness.gate.hearing import Hearing
from startup_plan.harness.gate.run import NOT_LOADED
from startup_plan.harness.stubs import backends
from startup_plan.harness.verdict.judgement import SuiteFacts, Terms
from startup_plan.harness.verdict.record import clean
from startup_plan.harness.world.loading import SubjectError
from startup_plan.harness.world.subject_name import SubjectName
from startup_plan.harness.world.try_out import try_out
from startup_plan.support.channel import die_with_parent
from startup_plan.support.scratch import fastest_folder, make_scratch, remove_scratch
from startup_plan.version import __version__

from .card_figures import CardReport
from .fixtures import SCRATCH, fresh_folder, subject, tally, world, world_factory
from .guard import Guard
from .hypothesis_profile import load_profile
from .ledger import Catalogue, Judgement, Teller
from .watchdog import Watchdog
from .witness import TERMS, Known, Witness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["fresh_folder", "subject", "tally", "world", "world_factory"]

_MARKERS: Final = (
    "requirement(*ids): the sentences of the contract that a test judges",
    "needs(*capabilities): what the machine must be capable of for a test to run",
    "control(*controls): what must behave before a test may judge (contract/control.py)",
    "gpu: needs a real device",
    "vllm: needs an installed vLLM",
    "xdist_group(name): tests that share something; without xdist, nobody asks",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what chooses the subject, and what a run demands."""
    add = parser.getgroup("startup-plan", "startup-plan: judge an implementation").addoption
    add(
        "--subject",
        default="reference",
        metavar="SUBJECT",
        help="what is judged: reference, vllm, package.module, a file, a wheel, or WHEEL!MEMBER",
    )
    add("--on", metavar="SUBJECT", help="what vllm.v1.worker.startup_plan is to the subject")
    add("--adapter", metavar="FILE", help="a module that gives the subject vLLM's functions")
    add(
        "--require",
        metavar="CAPABILITY,…",
        help=f"fail where one of these is absent: {', '.join(capabilities.names())}",
    )
    add(
        "--known-gaps",
        type=Path,
        metavar="FILE",
        help="accepted violations, one 'ID reason' a line; one that holds is an error",
    )
    add(
        "--backend",
        default=backends.chosen().name,
        metavar="NAME",
        help=f"the accelerator of the simulated world: {', '.join(backends.BACKENDS)}",
    )
    add("--gate-only", metavar="ID,…", help="run only tests of these requirements")
    add(
        "--gate-profile",
        choices=profiles.NAMES,
        help="how hard Hypothesis tries (HYPOTHESIS_PROFILE, otherwise ci)",
    )
    add("--gate-events", type=Path, metavar="FILE", help="tell a waiting gate of every result")
    add("--gate-parent", type=int, metavar="PID", help="the gate that waits, to end with it")
    add("--gate-state", metavar="ID", help="judge this crash state alone")
    add("--gpu-report", type=Path, metavar="FILE", help="write every figure measured on a card")
    add("--gate-scratch", type=Path, metavar="FOLDER", help="where simulated disks lie")


_SPARED: Final = {
    "vllm": "real vLLM takes minutes, so a quick run leaves it out unless told --require vllm",
    "gpu": "a card takes minutes, so a quick run leaves it out unless told --require gpu",
}


def _spared() -> dict[str, str]:
    """Capabilities that a run leaves out unless they are required, and why."""
    backend = backends.chosen().name
    if backend != "cuda":
        why = f"real vLLM and cards are CUDA's here, and this run is about {backend}"
        return dict.fromkeys(_SPARED, why)
    return {} if profiles.is_thorough() else _SPARED


_KNOWN: Final = "startup_plan_known"

LIMIT: Final = 120.0
"""Seconds after which a test of a subject is taken to hang; an eighth of it in the inner loop."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let a stranger run in a worker, unless told otherwise: it may end the process it runs in."""
    option = config.option
    if option.on is not None or option.adapter is not None:
        # One name from here on: workers and every child process are told that alone.
        option.subject = str(SubjectName(option.subject, option.on, option.adapter))
        option.on = option.adapter = None
    if (
        not hasattr(config, "workerinput")
        and getattr(option, "numprocesses", 0) is None
        and config.getoption("--subject") != "reference"
        and not (option.usepdb or option.collectonly)
    ):
        option.numprocesses, option.dist, option.tx = 1, "load", ["popen"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options, load the profile, and hang in the hooks that this process needs."""
    try:
        # Before any module of the suite is imported, and before workers inherit the environment.
        backends.choose(config.getoption("--backend"))
    except backends.UnknownBackendError as error:
        raise pytest.UsageError(str(error)) from error
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("--subject") != "reference":
        # A warning is an error in our own code; in a stranger's it would be made up by us.
        config.addinivalue_line("filterwarnings", "ignore")
    session = _Session(config)
    config.pluginmanager.register(session, "startup-plan-session")
    config.pluginmanager.register(session.guard, "startup-plan-guard")
    config.pluginmanager.register(session.witness(), "startup-plan-witness")
    limit = LIMIT if profiles.is_thorough() else LIMIT / 8
    watchdog = Watchdog(limit, with_vllm=LIMIT, with_gpu=LIMIT / 2)
    config.pluginmanager.register(watchdog, "startup-plan-watchdog")
    if not hasattr(config, "workerinput"):
        report = CardReport(config.getoption("--gpu-report"))
        config.pluginmanager.register(report, "startup-plan-card-report")


class _Session:
    """What one process of a session needs: the one that hears all, or one that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._gaps_file: Path | None = config.getoption("--known-gaps")
        self._terms = _terms(config, self._gaps_file)
        self._in_gate = config.getoption("--gate-events") is not None
        self._profile, self._seed = load_profile(config)
        self._worker: Mapping[str, Any] | None = getattr(config, "workerinput", None)
        self._own_scratch: Path | None = None
        self._scratch = self._find_scratch()
        self._events = self._find_events()
        self.guard = Guard(mutes=self._in_gate)
        does_without, applies = (self._worker or {}).get(_KNOWN, ((), True))
        self._known = Known(does_without, applies=applies)
        config.stash[SCRATCH] = self._scratch
        config.stash[TERMS] = self._terms
        gate: int | None = config.getoption("--gate-parent")
        if gate is not None and self._worker is None:
            # The gate ends its run gently, unless it is killed outright.
            die_with_parent(gate, signal.SIGTERM)

    def witness(self) -> Witness:
        return Witness(
            self._terms,
            self.guard,
            self._known,
            marked_only=self._in_gate,
            spared=_spared(),
        )

    def _find_scratch(self) -> Path:
        if self._worker is not None:
            return Path(self._worker["startup_plan_scratch"])
        given: Path | None = self._config.getoption("--gate-scratch")
        if given is not None:
            return given
        self._own_scratch = make_scratch(fastest_folder())
        return self._own_scratch

    def _find_events(self) -> Path:
        given: Path | None = self._config.getoption("--gate-events")
        return given or self._scratch / "events"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist where our folder is, and what is known of the subject."""
        node.workerinput["startup_plan_scratch"] = str(self._scratch)
        node.workerinput[_KNOWN] = (self._known.does_without, self._known.applies)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Try the subject out where everybody can see it fail, before any worker starts."""
        if self._config.getoption("--subject") != "reference":
            # What a stranger's finalizers and threads raise is nobody's verdict, and may come late.
            sys.unraisablehook = threading.excepthook = _let_pass
        manager = session.config.pluginmanager
        events = EventWriter(self._events)
        runs_tests = not getattr(self._config.option, "numprocesses", None)
        if self._worker is None:
            for plugin in self._ledger(events):
                manager.register(plugin)
        if self._worker["workerid"] == "gw0" if self._worker is not None else runs_tests:
            manager.register(Catalogue(events), "startup-plan-catalogue")

    def _ledger(self, events: EventWriter) -> Iterator[object]:
        name = self._config.getoption("--subject")
        try:
            tried = try_out(name)
        except SubjectError as error:
            sentence = clean(str(error))
            events.write(gate_events.REFUSED, sentence=sentence)
            pytest.exit(sentence, returncode=NOT_LOADED)
        self._known.does_without += tried.does_without
        self._known.applies = tried.applies
        suite = SuiteFacts(__version__, self._profile, self._seed)
        yield Teller(events, tried, suite, self._terms.required)
        if not self._in_gate:
            hearing = Hearing(EventReader(self._events), self._terms, suite)
            yield Judgement(hearing, name, self._gaps_file)

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind."""
        if self._own_scratch is not None:
            remove_scratch(self._own_scratch)


def _let_pass(_: object) -> None:
    """Hear of an exception that nobody can catch, and say nothing."""


def _terms(config: pytest.Config, gaps_file: Path | None) -> Terms:
    register = load_register()
    try:
        return Terms(
            register,
            only=choices.known_ids("--gate-only", config.getoption("--gate-only"), register),
            gaps={} if gaps_file is None else load_known_gaps(gaps_file, register),
            required=choices.known_capabilities("--require", config.getoption("--require")),
        )
    except (KnownGapsError, choices.ChoiceError) as error:
        raise pytest.UsageError(str(error)) from error
