# SPDX-License-Identifier: Apache-2.0
"""Cards with real processes, one test at a time, and whether they are fit for a scenario."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.cards.card import CardBusyError
from startup_plan.harness.cards.controls import card_control
from startup_plan.harness.cards.processes import CudaCard, HostCard, ProcessCard
from startup_plan.harness.contract.control import REFERENCE
from startup_plan.harness.session.card_figures import keep
from startup_plan.harness.session.controls import stand
from startup_plan.harness.session.witness import lacking
from startup_plan.harness.stubs.units import gib
from startup_plan.support.line_child import ChildError, Nursery

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from startup_plan.harness.cards.processes import RunScenario
    from startup_plan.harness.cards.scenarios import Scenario
    from startup_plan.harness.session.fixtures import Tally

SCRIPTS: Final = Path(__file__).parent


@contextmanager
def _alone() -> Generator[None]:
    """No other test of this user has the card meanwhile, whatever xdist makes of groups."""
    with Path(tempfile.gettempdir(), f"startup-plan-card-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def misfit(card: ProcessCard, scenario: Scenario) -> str:
    """Why a card is too small or too busy for a scenario, with figures; "" if it is not."""
    # Contexts and library handles take their part beside what the sizes of a scenario say.
    contexts = card.last // 2
    free, needed = card.free(), int(card.total * scenario.peak) + contexts
    if free < needed:
        return (
            f"{card.name} has {gib(free)} of {gib(card.total)} free, and the scenario needs "
            f"{scenario.peak:.0%} of the card and {gib(contexts)} for contexts"
        )
    return ""


@pytest.fixture(scope="session")
def nurseries(
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Callable[[str], Nursery]]:
    """Gives the process that forks the engines of a kind of card; those of a real one have torch.

    A card whose co-tenants are gone is opened for each scenario, while importing takes seconds.
    """
    errors = tmp_path_factory.mktemp("nursery") / "errors"
    made: dict[str, Nursery] = {}

    def give(backend: str) -> Nursery:
        if backend not in made:
            made[backend] = Nursery(SCRIPTS / "engine.py", backend, errors)
        return made[backend]

    yield give
    for nursery in made.values():
        nursery.close()


@pytest.fixture
def on_cuda(
    request: pytest.FixtureRequest,
    fresh_folder: Callable[[], Path],
    tally: Tally,
    nurseries: Callable[[str], Nursery],
) -> Generator[RunScenario]:
    """Runs scenarios on the CUDA device, one at a time on this machine."""
    judged = request.config.getoption("--subject")
    try:
        nursery = nurseries("cuda")
    except ChildError as error:
        lacking(request.config, "gpu", str(error), request.node)

    control = card_control(lambda folder: CudaCard(folder, REFERENCE, SCRIPTS, nursery))

    def once(name: str, scenario: Scenario, subject: str) -> ProcessCard:
        card = CudaCard(fresh_folder(), subject or judged, SCRIPTS, nursery)
        try:
            with card:
                if card.devices < scenario.devices:
                    pytest.skip(f"{card.devices} device here, {scenario.devices} are needed")
                if reason := misfit(card, scenario):
                    raise CardBusyError(reason)
                scenario.run(card)
        finally:
            tally(boots=card.boots)
            keep(request.node, card, name)
        return card

    def run(name: str, scenario: Scenario, subject: str = "") -> ProcessCard:
        try:
            try:
                return once(name, scenario, subject)
            except CardBusyError:
                # Somebody may have come or gone; a card that is busy for good says so twice.
                return once(name, scenario, subject)
        except (CardBusyError, ChildError) as error:
            lacking(request.config, "gpu", str(error), request.node)

    with _alone():
        behaved, words = stand(request.config, control)
        if not behaved:
            lacking(request.config, control.name, words, request.node)
        yield run


@pytest.fixture
def on_host(
    request: pytest.FixtureRequest,
    fresh_folder: Callable[[], Path],
    tally: Tally,
    nurseries: Callable[[str], Nursery],
) -> RunScenario:
    """Runs scenarios with real processes on a made-up device."""
    judged = request.config.getoption("--subject")

    def run(name: str, scenario: Scenario, subject: str = "") -> ProcessCard:
        with HostCard(fresh_folder(), subject or judged, SCRIPTS, nurseries("host")) as card:
            try:
                scenario.run(card)
            finally:
                tally(boots=card.boots)
                keep(request.node, card, name)
        return card

    return run
