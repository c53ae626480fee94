# SPDX-License-Identifier: Apache-2.0
"""Processes on a card: they answer, they let go, and none outlives whoever started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.cards.card import CardBusyError
from startup_plan.harness.cards.crowd_scenarios import ALL
from startup_plan.harness.cards.processes import CudaCard, HostCard
from startup_plan.support.line_child import ChildError, Nursery, spawn

if TYPE_CHECKING:
    from collections.abc import Generator

SCRIPTS: Final = Path(__file__).parents[2] / "gpu"


@pytest.fixture
def card(tmp_path: Path) -> Generator[HostCard]:
    """A made-up device with real processes."""
    with HostCard(tmp_path, "reference", SCRIPTS) as opened:
        yield opened


def is_alive(pid: int) -> bool:
    """Whether a process exists that has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_a_cotenant_holds_what_it_is_told(card: HostCard) -> None:
    """A co-tenant grows, shrinks and leaves, and others see exactly that."""
    empty = card.free()
    tenant = card.tenant(card.share(0.25))
    alone = card.free()
    card.hold(tenant, tenant.held + card.granule)
    grown = card.free()
    card.hold(tenant, card.granule)
    shrunk = card.free()
    card.leave(tenant)

    assert (alone - grown, shrunk - alone, card.free()) == (
        card.granule,
        card.share(0.25) - card.granule,
        empty,
    )


def test_a_cotenant_never_takes_the_last_bytes(card: HostCard) -> None:
    """Neither the card nor the co-tenant itself lets it take what must be left to the device."""
    tenant = card.tenant(card.share(0.25))
    too_much = card.free() + tenant.held - card.last + card.granule

    with pytest.raises(CardBusyError, match="would leave less than"):
        card.hold(tenant, too_much)
    with pytest.raises(CardBusyError, match="would leave less than"):
        tenant.hold(too_much)


def test_memory_of_a_killed_engine_comes_back(card: HostCard) -> None:
    """An engine that is killed in the middle of its life leaves nothing on the device."""
    before = card.free()
    boot = card.start(card.order(), "allocated")
    during = card.free()
    boot.kill()

    assert (during < before, card.free()) == (True, before)


def test_an_engine_that_asks_for_too_much_is_refused(card: HostCard) -> None:
    """Memory that the device does not have is not handed out, and the report says so."""
    tenant = card.tenant(card.share(0.4))
    report = card.boot(card.order(utilization=0.5, weights=card.share(0.7)))
    card.leave(tenant)

    assert (report.stage, "out of memory" in report.shortage) == ("snapshot", True)


def test_a_process_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    """A card that is none is an error with the reason, and no process is left behind."""
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit('there is no such card')")

    with pytest.raises(ChildError, match="died: there is no such card"):
        spawn([str(script)], [], tmp_path / "errors").hear()


def test_a_card_without_a_driver_says_so(tmp_path: Path) -> None:
    """Where there is no CUDA device, opening one fails with what is missing."""
    card = CudaCard(tmp_path, "reference", SCRIPTS)
    hidden = pytest.MonkeyPatch()
    # A driver that is there has no such device; one that is not there says that.
    hidden.setattr(card, "_where", lambda _: ["--backend", "cuda", "--device", "99"])

    with pytest.raises(ChildError, match=r"no CUDA driver|no device 99"), card:
        pass
    assert card.pids == []


@pytest.fixture
def nursery(tmp_path: Path) -> Generator[Nursery]:
    """A process that forks engines."""
    made = Nursery(SCRIPTS / "engine.py", "host", tmp_path / "errors")
    yield made
    made.close()


@pytest.mark.parametrize("forks", [True, False])
def test_engines_are_processes_of_their_own(tmp_path: Path, nursery: Nursery, forks: bool) -> None:
    """Engines, forked or with an interpreter of their own, are gone when their card is closed."""
    with HostCard(tmp_path, "reference", SCRIPTS, nursery if forks else None) as card:
        before = card.free()
        ALL["a leak"].run(card)
        card.start(card.order(utilization=0.4), "served")
        seen = set(card.pids)

        assert (len(seen), card.free() < before) == (1 + card.boots + 1, True)
    assert not any(map(is_alive, seen))


def test_a_forked_engine_that_dies_is_told_with_its_last_words(
    tmp_path: Path, nursery: Nursery
) -> None:
    """An engine that cannot load its subject says so, and the nursery goes on."""
    with (
        HostCard(tmp_path, "no.such.module", SCRIPTS, nursery) as broken,
        pytest.raises(ChildError, match=r"died: .*no\.such\.module"),
    ):
        broken.start(broken.order(), "served")
    with HostCard(tmp_path / "next", "reference", SCRIPTS, nursery) as card:
        assert card.boot(card.order()).stage == "served"


def test_forked_engines_die_with_their_nursery(tmp_path: Path, nursery: Nursery) -> None:
    """Closing a nursery ends every engine that it has forked."""
    with HostCard(tmp_path, "reference", SCRIPTS, nursery) as card:
        card.start(card.order(), "served")
        engine = card.pids[-1]
        watched = os.pidfd_open(engine)
        nursery.close()
        _wait_for_end(watched)

        assert not is_alive(engine)


_PARENT: Final = """
import sys
from pathlib import Path
from startup_plan.harness.cards.processes import HostCard

with HostCard(sys.argv[1], "reference", Path(sys.argv[2])) as card:
    tenant = card.tenant(card.share(0.25))
    boot = card.start(card.order(utilization=0.4), "served")
    print(*card.pids, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and SIGKILL of the parent end every process that it has on the card."""
    package = Path(__file__).parents[3] / "src"
    environment = os.environ | {"PYTHONPATH": os.fspath(package)} if package.is_dir() else None
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path), str(SCRIPTS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        watched = [os.pidfd_open(pid) for pid in pids]
        parent.send_signal(number)
        parent.wait(30)
    for descriptor in watched:
        _wait_for_end(descriptor)

    assert (len(pids), [pid for pid in pids if is_alive(pid)]) == (3, [])


def _wait_for_end(descriptor: int) -> None:
    """Wait for the end of a process that is no child of ours."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(20_000)
    os.close(descriptor)
