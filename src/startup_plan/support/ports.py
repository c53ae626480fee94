# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine: a free one, and who listens on one, read from the kernel's own tables.

Source: `proc_net_tcp` of the Linux kernel: addresses are hexadecimal in the machine's byte order,
state 0A is LISTEN.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TABLES: Final = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_LISTEN: Final = "0A"
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


@final
@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that waits for connections.

    Args:
        address: the address it is bound to, `0.0.0.0` or `::` for all of them.
        inode: by which the kernel knows it.
    """

    address: str
    inode: str

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)
        return address.is_loopback or (mapped is not None and bool(mapped.is_loopback))


def listeners(port: int) -> list[Listener]:
    """Give all that listen on `port`, on whatever address."""
    return [listener for table in _TABLES for listener in _listeners(table, port)]


def can_bind(port: int) -> bool:
    """Whether a server could listen on the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of the last server that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port of the loopback address on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number


def listened_on(port: int) -> str | None:
    """Say who listens on `port`, or None where nobody does."""
    found = [listener.address for listener in listeners(port)]
    return f"port {port} is listened on at {', '.join(found)}" if found else None


def in_use(port: int) -> str | None:
    """Say who listens on `port`, or why no server could, or None where one could."""
    if (found := listened_on(port)) is not None:
        return found
    return None if can_bind(port) else f"port {port} of 127.0.0.1 cannot be bound"


def holds_one(pids: Iterable[int], candidates: Iterable[Listener]) -> bool:
    """Whether one of the processes has one of the sockets open."""
    inodes = {listener.inode for listener in candidates}
    return any(inode in inodes for pid in pids for inode in _sockets(pid))


def _listeners(table: str, port: int) -> Iterator[Listener]:
    try:
        with open(table, encoding="ascii") as file:
            rows = file.read().splitlines()[1:]
    except OSError:
        return
    for row in rows:
        fields = row.split()
        address, _, hexadecimal = fields[1].partition(":")
        if fields[3] == _LISTEN and int(hexadecimal, 16) == port:
            yield Listener(_address(address), fields[9])


def _address(hexadecimal: str) -> str:
    raw = bytes.fromhex(hexadecimal)
    words = [raw[start : start + 4] for start in range(0, len(raw), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return str(ipaddress.ip_address(b"".join(words)))


def _sockets(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            match = _SOCKET.fullmatch(os.readlink(f"{folder}/{name}"))
        except OSError:
            continue
        if match is not None:
            yield match[1]
