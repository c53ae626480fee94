# SPDX-License-Identifier: Apache-2.0
"""The sequencer plays what is laid down, notices waits, and agrees with real processes."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.operations.interposer import UnknownOperationError, patched
from startup_plan.harness.races import sequencer
from startup_plan.harness.races.children import Jostled, play_forked, run_together
from startup_plan.harness.races.sequencer import Leg, StuckError, Theatre, nested
from startup_plan.harness.races.two_savers import ONE_PID, TwoSavers
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def _writer(folder: Path, name: str) -> Callable[[], None]:
    """A player of three operations: open, write, close."""

    def write() -> None:
        fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, name.encode())
        os.close(fd)

    return write


def _names(played: sequencer.Played) -> list[tuple[int, str]]:
    return [(player, operation.name) for player, operation in played.order]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@pytest.mark.parametrize("pool", [False, True], ids=["thread", "pool"])
def test_a_thread_of_a_player_is_the_player(tmp_path: Path, pool: bool) -> None:
    """What a player has done by a thread that it waits for stops where the leg says, as its own."""

    def apart(work: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if pool:
                with ThreadPoolExecutor(1) as threads:
                    threads.submit(work).result()
            else:
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()

        return call

    calls = [apart(_writer(tmp_path, name)) for name in "ab"]
    with Theatre(tmp_path) as stage:
        played = stage.play(calls, [Leg(0, 2), Leg(1, 3), Leg(0)])

    assert (played.errors, played.deadlocked) == ((None, None), False)
    assert _names(played) == [
        (0, "open"),
        (1, "open"),
        (1, "write"),
        (0, "write"),
        (0, "close"),
        (1, "close"),
    ]


def test_legs_are_played_as_laid_down(tmp_path: Path) -> None:
    """Each leg ends before the operation that it names, and the rest is played at the end."""
    with Theatre(tmp_path) as stage:
        played = stage.play(
            [_writer(tmp_path, "a"), _writer(tmp_path, "b")], [Leg(0, 2), Leg(1, 3), Leg(0)]
        )

    assert _names(played) == [
        (0, "open"), (1, "open"), (1, "write"), (0, "write"), (0, "close"), (1, "close"),
    ]  # fmt: skip
    assert [stop and stop.name for stop in played.stops] == ["write", "close", None]
    assert (played.errors, played.deadlocked) == ((None, None), False)


def test_what_a_player_stands_before_has_not_happened(tmp_path: Path) -> None:
    """While all stand still, the operations before the stop are done, and the one after is not."""
    sizes = []
    with Theatre(tmp_path) as stage:
        stage.play(
            [_writer(tmp_path, "a")],
            [Leg(0, 1), Leg(0, 2), Leg(0, 3)],
            after_leg=lambda _: sizes.append(
                [(path.name, path.stat().st_size) for path in tmp_path.iterdir()]
            ),
        )

    assert sizes == [[], [("a", 0)], [("a", 1)]]


def test_one_order_gives_the_same_every_time(tmp_path: Path) -> None:
    """Twenty plays of one order are twenty equal sequences of operations."""
    with Theatre(tmp_path) as stage:
        seen = {
            tuple(
                _names(
                    stage.play(
                        [_writer(tmp_path, "a"), _writer(tmp_path, "b")], [Leg(0, 3), Leg(1, 2)]
                    )
                )
            )
            for _ in range(20)
        }

    assert len(seen) == 1


def test_nested_orders_are_every_pair_of_stops() -> None:
    """Two stops of one and three of the other are two times four orders, ends included."""
    orders = list(nested([1, 2], [1, 2, 3]))

    assert len(set(orders)) == 8
    assert (Leg(0, 2), Leg(1, None), Leg(0), Leg(1)) in orders


def test_who_waits_for_a_lock_gives_back_the_turn(tmp_path: Path) -> None:
    """A player that waits for a lock lets the holder go on, and gets it afterwards."""
    held = []

    def player(name: str) -> Callable[[], None]:
        def hold() -> None:
            with _locked(tmp_path / "lock"):
                held.append(name)
                _writer(tmp_path, name)()

        return hold

    with Theatre(tmp_path) as stage:
        played = stage.play([player("a"), player("b")], [Leg(0, 3), Leg(1), Leg(0)])

    assert held == ["a", "b"]
    assert (played.errors, played.deadlocked) == ((None, None), False)


def test_a_deadlock_is_noted_and_ended(tmp_path: Path) -> None:
    """Two players that wait for each other do not stop the play."""
    first, second = tmp_path / "first", tmp_path / "second"

    def player(one: Path, other: Path) -> Callable[[], None]:
        def hold() -> None:
            with _locked(one), _locked(other):
                pass

        return hold

    before = threading.active_count()
    with Theatre(tmp_path) as stage:
        played = stage.play([player(first, second), player(second, first)], [Leg(0, 2), Leg(1, 2)])

    assert played.deadlocked
    assert threading.active_count() == before


def test_patience_comes_to_its_end_without_taking_time(tmp_path: Path) -> None:
    """Who looks for something for five seconds at most, and in vain, is in no deadlock."""
    ends: list[float] = []

    def look() -> None:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            time.sleep(0.01)
        ends.append(time.monotonic() - end)

    with Theatre(tmp_path) as stage:
        played = stage.play([look, _writer(tmp_path, "b")], [Leg(0), Leg(1)])

    assert (played.deadlocked, len(ends)) == (False, 1)


def test_who_sleeps_gives_back_the_turn(tmp_path: Path) -> None:
    """A player that polls for a file does not wait longer than the other needs to make it."""

    def poll() -> None:
        while not os.access(tmp_path / "b", os.F_OK):
            time.sleep(3600)

    with Theatre(tmp_path) as stage:
        played = stage.play([poll, _writer(tmp_path, "b")], [Leg(0), Leg(1)])

    assert not played.deadlocked
    assert _names(played)[0] == (0, "access")
    assert _names(played)[-1] == (0, "access")


def test_who_is_no_player_waits_as_ever(tmp_path: Path) -> None:
    """Outside a play locks and sleeps do what they always do."""
    with Theatre(tmp_path), _locked(tmp_path / "lock"):
        fd = os.open(tmp_path / "lock", os.O_WRONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0)
        os.close(fd)

    assert fcntl.flock is sequencer._flock
    assert time.sleep is sequencer._sleep


def test_what_a_player_raises_is_kept(tmp_path: Path) -> None:
    """An exception ends its player and no other."""

    def fail() -> None:
        os.unlink(tmp_path / "missing")

    with Theatre(tmp_path) as stage:
        played = stage.play([fail, _writer(tmp_path, "b")], [])

    assert isinstance(played.errors[0], FileNotFoundError)
    assert (played.errors[1], (tmp_path / "b").read_text()) == (None, "b")


def test_what_cannot_be_followed_is_no_verdict(tmp_path: Path) -> None:
    """A player that goes around the interposer fails the play."""
    with pytest.raises(UnknownOperationError, match="mkfifo"), Theatre(tmp_path) as stage:
        stage.play([lambda: os.mkfifo(tmp_path / "pipe")], [])


def test_a_player_that_does_not_come_back_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that cannot be seen ends the play with an error that says so."""
    monkeypatch.setattr(sequencer, "PATIENCE", 0.05)
    release = threading.Event()
    with pytest.raises(StuckError, match="has not come back"), Theatre(tmp_path) as stage:
        stage.play([release.wait, _writer(tmp_path, "b")], [Leg(0)])
    release.set()

    assert not (tmp_path / "b").exists()


def test_children_work_at_once_and_their_ends_are_told_apart() -> None:
    """Nobody begins before all are ready; what returns, raises or is killed is reported so."""
    ready, ready_end = os.pipe()

    def prepared(work: Callable[[], object]) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            os.write(ready_end, b".")
            return work

        return prepare

    works: list[Callable[[], object]] = [
        lambda: len(os.read(ready, 10)),
        lambda: 1 // 0,
        lambda: os.kill(os.getpid(), 9),
        lambda: os._exit(7),
    ]
    endings = run_together([prepared(work) for work in works], seconds=30)
    os.close(ready)
    os.close(ready_end)

    assert endings[0].value == 4
    assert endings[1].error.startswith("ZeroDivisionError")
    assert (endings[2].killed, endings[3].error) == (9, "left with status 7")


def test_a_child_that_does_not_end_is_ended() -> None:
    """Time that is over is over."""
    never, end = os.pipe()
    endings = run_together([lambda: lambda: os.read(never, 1)], seconds=0.2)
    os.close(never)
    os.close(end)

    assert endings[0].hung


def test_a_fatal_write_happens_by_half(tmp_path: Path) -> None:
    """A doomed process dies in the operation that was named, in the midst of it."""

    def prepare() -> Callable[[], object]:
        jostled = Jostled(tmp_path, lambda _: None).__enter__()
        jostled.fatal = 1

        def work() -> None:
            jostled.begin()
            (tmp_path / "file").write_bytes(b"0123456789")

        return work

    (ending,) = run_together([prepare], seconds=30)

    assert (ending.killed, (tmp_path / "file").read_bytes()) == (9, b"01234")


@pytest.mark.parametrize("slug", ["rewrite", "temporary_named_after_pid", "written_in_place"])
def test_processes_come_to_what_threads_come_to(
    fresh_folder: Callable[[], Path], seeded: Callable[[str], str], slug: str
) -> None:
    """In the same order real processes ask for the same operations and leave the same disk."""
    harmed = []
    with (
        World(load_subject(seeded(slug)), fresh_folder()) as world,
        TwoSavers(world, over_old=True, a_is_longer=True, pids=ONE_PID) as savers,
    ):
        for legs in itertools.islice(savers.orders(), 0, None, 7):
            met = savers.meet(legs)
            savers.get_ready()
            with patched(savers.root):
                forked = play_forked(savers.root, [savers.act_as(0), savers.act_as(1)], legs)
            traits = savers.traits()
            harmed.append(bool(savers.wrong(met)))

            assert _shape(savers, forked) == _shape(savers, met.played)
            assert (traits, forked.errors) == (met.traits, met.played.errors)

    # The sample holds orders that do harm to a faulty saver, and others.
    assert set(harmed) == ({False} if slug == "rewrite" else {False, True})


@pytest.mark.parametrize(
    ("slug", "breaks"),
    [("rewrite", False), ("temporary_named_after_pid", True), ("written_in_place", True)],
)
def test_orders_tell_a_faulty_saver_from_a_good_one(
    fresh_folder: Callable[[], Path], seeded: Callable[[str], str], slug: str, breaks: bool
) -> None:
    """Among all orders there is one in which a shared temporary file does harm."""
    with (
        World(load_subject(seeded(slug)), fresh_folder()) as world,
        TwoSavers(world, over_old=True, a_is_longer=True) as savers,
    ):
        wrong = [end for legs in savers.orders() if (end := savers.wrong(savers.meet(legs)))]

    assert bool(wrong) == breaks


def _shape(savers: TwoSavers, played: sequencer.Played) -> list[tuple[int, str]]:
    """Who did what, whatever names temporary files have."""
    return [(player, savers.describe(operation)) for player, operation in played.order]
