# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of the loopback address on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number
