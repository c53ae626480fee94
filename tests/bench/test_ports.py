# SPDX-License-Identifier: Apache-2.0
"""Who listens on a port, as the kernel says."""

from __future__ import annotations

import os
import socket

import pytest

from startup_plan.support import ports


def test_nobody_listens_on_a_free_port(port: int) -> None:
    """A port that nobody uses has no listener and can be bound."""
    assert (ports.listeners(port), ports.in_use(port)) == ([], None)


@pytest.mark.parametrize(
    ("family", "address", "loopback"),
    [
        (socket.AF_INET, "127.0.0.1", True),
        (socket.AF_INET, "127.9.8.7", True),
        (socket.AF_INET, "0.0.0.0", False),  # noqa: S104  # what is to be found
        (socket.AF_INET6, "::1", True),
        (socket.AF_INET6, "::", False),
    ],
    ids=["loopback", "other-loopback", "all", "loopback-v6", "all-v6"],
)
def test_a_listener_is_found_with_its_address(
    port: int, family: socket.AddressFamily, address: str, loopback: bool
) -> None:
    """A listener is found on whatever address, and known as loopback or not."""
    try:
        server = socket.create_server((address, port), family=family)
    except OSError as error:
        pytest.skip(f"no such address here: {error}")
    with server:
        (found,) = ports.listeners(port)
        held = ports.holds_one([os.getpid()], [found])
        held_by_parent = ports.holds_one([os.getppid()], [found])

    assert (found.address, found.is_loopback, held, held_by_parent) == (
        address,
        loopback,
        True,
        False,
    )


def test_a_mapped_loopback_address_is_loopback() -> None:
    """An IPv4 address in the clothes of an IPv6 one is judged by what it is."""
    verdicts = [
        ports.Listener(address, "1").is_loopback
        for address in ("::ffff:127.0.0.1", "::ffff:192.0.2.1")
    ]

    assert verdicts == [True, False]


def test_a_bound_port_that_nobody_listens_on_cannot_be_used(port: int) -> None:
    """A port that is bound without listening is in use all the same."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        words = ports.in_use(port)

    assert words == f"port {port} of 127.0.0.1 cannot be bound"
