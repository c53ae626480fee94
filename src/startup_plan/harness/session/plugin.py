# SPDX-License-Identifier: Apache-2.0
"""Options, markers and fixtures of the suite, in any pytest session.

A test says what it judges, and what it counted:

    @pytest.mark.requirement("KEY-02")
    def test_utilization_enters_the_key(world, tally):
        ...
        tally(boots=2, examples=1)

A failure that is a `Violation` with an id breaks that requirement; any other failure breaks every
requirement that the test carries.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.contract import capabilities, profiles
from startup_plan.harness.contract.known_gaps import KnownGapsError, load_known_gaps
from startup_plan.harness.contract.register import Register, load_register
from startup_plan.harness.gate import events as gate_events
from startup_plan.harness.gate.events import EventReader, EventWriter
from startup_plan.harness.gate.run import NOT_LOADED, suite_version
from startup_plan.harness.verdict.judgement import SubjectFacts, SuiteFacts
from startup_plan.harness.verdict.record import clean
from startup_plan.harness.world.loading import SubjectError, load_subject
from startup_plan.support.channel import die_with_parent
from startup_plan.support.scratch import fastest_folder, make_scratch, remove_scratch

from .card_figures import CardReport
from .fixtures import SCRATCH, SUBJECT, fresh_folder, subject, tally, world, world_factory
from .hypothesis_profile import load_profile
from .ledger import Catalogue, Ledger
from .watchdog import Watchdog
from .witness import Witness

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fresh_folder", "subject", "tally", "world", "world_factory"]

_MARKERS: Final = (
    "requirement(*ids): the sentences of the contract that a test judges",
    "needs(*capabilities): what the machine must be capable of for a test to run",
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
        help="what is judged: reference, vllm, package.module, a file, or a wheel",
    )
    add(
        "--require",
        default="",
        metavar="CAPABILITY,…",
        help=f"fail where one of these is absent: {', '.join(capabilities.names())}",
    )
    add(
        "--known-gaps",
        type=Path,
        metavar="FILE",
        help="accepted violations, one 'ID reason' a line; one that holds is an error",
    )
    add("--gate-only", default="", metavar="ID,…", help="run only tests of these requirements")
    add(
        "--gate-profile",
        choices=profiles.NAMES,
        help="how hard Hypothesis tries (HYPOTHESIS_PROFILE, otherwise ci)",
    )
    add("--gate-events", type=Path, metavar="FILE", help="tell a waiting gate of every result")
    add("--gate-state", metavar="ID", help="judge this crash state alone")
    add("--gpu-report", type=Path, metavar="FILE", help="write every figure measured on a card")
    add("--gate-scratch", type=Path, metavar="FOLDER", help="where simulated disks lie")


_SPARED: Final = {
    "vllm": "real vLLM takes minutes, so a quick run leaves it out unless told --require vllm",
    "gpu": "a card takes minutes, so a quick run leaves it out unless told --require gpu",
}

LIMIT: Final = 120.0
"""Seconds after which a test of a subject is taken to hang; an eighth of it in the inner loop."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options, load the profile, and hang in the hooks that this process needs."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    session = _Session(config)
    config.pluginmanager.register(session, "startup-plan-session")
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
        self._register = load_register()
        self._only = _known(config, "--gate-only", self._register)
        self._required = _required(config)
        self._gaps_file: Path | None = config.getoption("--known-gaps")
        self._gaps = _gaps(self._gaps_file, self._register)
        self._in_gate = config.getoption("--gate-events") is not None
        self._profile, self._seed = load_profile(config)
        self._worker: Mapping[str, Any] | None = getattr(config, "workerinput", None)
        self._own_scratch: Path | None = None
        self._scratch = self._find_scratch()
        self._events = self._find_events()
        config.stash[SCRATCH] = self._scratch
        if self._in_gate and self._worker is None:
            # The gate that started this process may be killed outright.
            die_with_parent(number=signal.SIGTERM)

    def witness(self) -> Witness:
        return Witness(
            self._register,
            only=self._only,
            marked_only=self._in_gate,
            gaps=self._gaps,
            required=self._required,
            spared={} if profiles.is_thorough() else _SPARED,
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
        """Tell a worker of xdist where this session's folder is."""
        node.workerinput["startup_plan_scratch"] = str(self._scratch)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Load the subject where everybody can see it fail, before any worker starts."""
        manager = session.config.pluginmanager
        events = EventWriter(self._events)
        runs_tests = not getattr(self._config.option, "numprocesses", None)
        if self._worker is None:
            ledger = self._load_and_open_ledger(events)
            manager.register(ledger, "startup-plan-ledger")
            ledger.begin()
        if self._worker["workerid"] == "gw0" if self._worker is not None else runs_tests:
            manager.register(Catalogue(events), "startup-plan-catalogue")

    def _load_and_open_ledger(self, events: EventWriter) -> Ledger:
        name = self._config.getoption("--subject")
        try:
            loaded = load_subject(name)
        except SubjectError as error:
            sentence = clean(str(error))
            events.write(gate_events.REFUSED, sentence=sentence)
            pytest.exit(sentence, returncode=NOT_LOADED)
        self._config.stash[SUBJECT] = loaded
        return Ledger(
            self._register,
            subject=SubjectFacts(loaded.name, loaded.file, loaded.sha256, loaded.version),
            suite=SuiteFacts(suite_version(), self._profile, self._seed),
            events=events,
            reader=EventReader(self._events),
            gaps=self._gaps,
            gaps_file=self._gaps_file,
            only=self._only,
            required=self._required,
        )

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind."""
        if self._own_scratch is not None:
            remove_scratch(self._own_scratch)


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for piece in text.split(",") if (part := piece.strip())))


def _known(config: pytest.Config, option: str, register: Register) -> tuple[str, ...]:
    ids = _split(config.getoption(option))
    for requirement_id in ids:
        if requirement_id not in register:
            raise pytest.UsageError(f"{option}: {register.describe_unknown(requirement_id)}")
    return ids


def _required(config: pytest.Config) -> tuple[str, ...]:
    names = _split(config.getoption("--require"))
    for name in names:
        if name not in capabilities.names():
            raise pytest.UsageError(f"--require: {capabilities.describe_unknown(name)}")
    return names


def _gaps(file: Path | None, register: Register) -> Mapping[str, str]:
    if file is None:
        return {}
    try:
        return load_known_gaps(file, register)
    except KnownGapsError as error:
        raise pytest.UsageError(str(error)) from error
