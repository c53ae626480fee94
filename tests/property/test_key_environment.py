# SPDX-License-Identifier: Apache-2.0
"""The environment below and around vLLM: what takes memory moves the key, what a start is does not.

Which variable is which, why, and where that can be read stands in `histories/environment.toml`.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.histories.environment import STARTS, TAKES, Start, Takes
from startup_plan.harness.world.engine import UTILIZATION, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.world import World

_NEARLY_ALL: Final = 0.99


def _engine(variable: Takes, text: str, utilization: float | None = None) -> Engine:
    engine = Engine()
    variable.put(engine, text)
    if utilization is not None:
        engine.set(UTILIZATION, utilization)
    return engine


@pytest.mark.requirement("KEY-11")
@pytest.mark.parametrize("variable", TAKES, ids=lambda variable: variable.name)
def test_what_a_connector_or_a_backend_reads_moves_the_key(
    world: World, tally: Tally, variable: Takes
) -> None:
    """A variable that takes memory while its connector or backend is loaded gives another key."""
    if variable.backend not in ("", world.runtime.backend.name):
        pytest.skip(f"read under another accelerator: judged with --backend {variable.backend}")
    light, heavy = variable.texts
    found = [keys.sure_key(world, _engine(variable, text)) for text in variable.texts]
    tally(boots=2, examples=1)
    if found[0] != found[1]:
        return
    loaded = f" with {variable.connector} loaded" if variable.connector else ""
    one, other = (_engine(variable, text, _NEARLY_ALL) for text in variable.texts)
    story = keys.reuse(world, one, f"{variable.name} is {heavy} instead of {light}", other)

    raise Violation(
        "KEY-11",
        f"{variable.name} takes memory{loaded} and does not move the key: {variable.why} "
        f"({variable.source})\n{story}",
    )


def _started(environ: Mapping[str, str]) -> Engine:
    engine = Engine()
    engine.environ |= environ
    return engine


@pytest.mark.requirement("KEY-13")
@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.writer)
def test_what_a_start_writes_into_a_process_is_not_in_the_key(
    world: World, tally: Tally, start: Start
) -> None:
    """Job ids, addresses, sessions and the like differ at each start and change nothing."""
    first, second = (keys.sure_key(world, _started(start.environ(number))) for number in (0, 1))
    tally(boots=2, examples=len(start.variables))
    if first == second:
        return
    usual, other = start.environ(0), start.environ(1)
    guilty = [
        name
        for name in start.variables
        if keys.sure_key(world, _started({**usual, name: other[name]})) != first
    ]
    name = (guilty or list(start.variables))[0]
    change = f"{name} is {other[name]!r} instead of {usual[name]!r}"
    once = {**usual, name: other[name]}

    raise Violation(
        "KEY-13",
        f"what {start.writer} writes into a process at each start moves the key: "
        f"{keys.listed(guilty or start.variables.keys())} ({start.source})\n"
        f"{keys.reuse(world, _started(usual), change, _started(once))}",
    )


@contextlib.contextmanager
def _host(number: int) -> Iterator[None]:
    name = f"node-{number}"
    named = os.uname_result(("Linux", name, "6.8.0", "#1", "x86_64"))
    told = platform.uname()._replace(node=name)
    with (
        mock.patch.object(socket, "gethostname", return_value=name),
        mock.patch.object(socket, "getfqdn", return_value=f"{name}.example"),
        mock.patch.object(platform, "node", return_value=name),
        mock.patch.object(platform, "uname", return_value=told),
        mock.patch.object(os, "uname", return_value=named),
    ):
        yield


@contextlib.contextmanager
def _user(number: int) -> Iterator[None]:
    name, identity = ("alice", "bob")[number], 1000 + number
    with (
        mock.patch.object(getpass, "getuser", return_value=name),
        mock.patch.object(os, "getlogin", return_value=name),
        mock.patch.object(os, "getuid", return_value=identity),
        mock.patch.object(os, "geteuid", return_value=identity),
    ):
        yield


@contextlib.contextmanager
def _interpreter(number: int) -> Iterator[None]:
    prefix = f"/opt/venv-{number}"
    with (
        mock.patch.object(sys, "executable", f"{prefix}/bin/python3"),
        mock.patch.object(sys, "prefix", prefix),
        mock.patch.object(sys, "exec_prefix", prefix),
    ):
        yield


@contextlib.contextmanager
def _time_zone(number: int) -> Iterator[None]:
    try:
        with mock.patch.dict(os.environ, TZ=("UTC0", "JST-9")[number]):
            time.tzset()
            yield
    finally:
        time.tzset()


_AROUND: Final[dict[str, Callable[[int], Any]]] = {
    "the name of the host": _host,
    "the user": _user,
    "the path of the interpreter": _interpreter,
    "the time zone": _time_zone,
}
"""What a process can ask the system for -> how it has the first or the second answer."""


@pytest.mark.requirement("KEY-13")
@pytest.mark.parametrize("what", _AROUND)
def test_where_and_for_whom_a_process_runs_is_not_in_the_key(
    world: World, tally: Tally, what: str
) -> None:
    """Host, user, interpreter and time zone of a process are no factors, however it learns them."""
    found = []
    for number in (0, 1):
        # Executed anew, because a module may have asked when it was imported.
        with world.subject.apart(), _AROUND[what](number):
            found.append(keys.sure_key(world, Engine()))
    tally(boots=2)

    if found[0] != found[1]:
        raise Violation(
            "KEY-13", f"two processes that differ in {what} alone look for different plans"
        )
