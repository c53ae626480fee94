# SPDX-License-Identifier: Apache-2.0
"""What a benchmark is to do, and everything that can be refused before anything is started."""

from __future__ import annotations

import ipaddress
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from startup_plan.bench.errors import RefusalError
from startup_plan.support import ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .phases import Phase
    from .requests import Request

HOST: Final = "127.0.0.1"
_LONGEST: Final = 7 * 86400.0


@final
@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark to be done.

    Args:
        command: the server's, word by word.
        output: the folder that everything goes to; it must not exist.
        port: where the server will listen on the loopback address.
        requests: what each server is asked, in this order.
        phases: in the order in which they run.
        repeats: how many rounds of all phases.
        timeout: seconds until a server must be healthy, and that an answer may take to go on.
        grace: seconds that a server has to end after TERM.
        health: path of the health endpoint.
        extra: variables for the server, beside those of this process.
    """

    command: tuple[str, ...]
    output: Path
    port: int
    requests: tuple[Request, ...]
    phases: tuple[Phase, ...]
    repeats: int
    timeout: float
    grace: float
    health: str
    extra: Mapping[str, str]

    def check(self) -> None:
        """Refuse what can be known to fail; nothing is started or written.

        Raises:
            RefusalError: with the reason and the remedy.
        """
        if sys.platform != "linux":
            raise RefusalError("the benchmark needs Linux: it finds processes and ports in /proc")
        for name, seconds in (("--timeout", self.timeout), ("--grace", self.grace)):
            if not 0 <= seconds <= _LONGEST:
                raise RefusalError(f"{name} {seconds:g}: give seconds, at most {_LONGEST:g}")
        _check_health_path(self.health)
        _check_executable(self.command[0], {**os.environ, **self.extra}.get("PATH"))
        for name, value in _options(self.command, "--host", "--port"):
            if name == "--host" and not _is_loopback(value):
                raise RefusalError(
                    f"the command says --host {value}, which other machines can reach; "
                    f"write --host {HOST}"
                )
            if name == "--port" and value.isdecimal() and int(value) != self.port:
                raise RefusalError(
                    f"the command says --port {value} and the benchmark --port {self.port}; "
                    "they must be the same"
                )
        busy = ports.in_use(self.port)
        if busy is not None:
            raise RefusalError(f"{busy}; end what listens there, or choose another port")
        if os.path.lexists(self.output):
            raise RefusalError(
                f"--output-dir {self.output}: exists already; name a new folder, results are "
                "never overwritten"
            )

    def make_output(self) -> None:
        """Make the output folder.

        Raises:
            RefusalError: it cannot be made.
        """
        try:
            # Logs and answers are nobody else's business.
            self.output.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise RefusalError(
                f"--output-dir {self.output}: cannot be made ({error.strerror})"
            ) from error


def _check_health_path(path: str) -> None:
    if not path.startswith("/") or path.startswith("//"):
        raise RefusalError(
            f"--health {path}: give a path such as /health; the host is always {HOST}"
        )
    if not path.isascii() or not path.isprintable() or " " in path or "#" in path:
        raise RefusalError(f"--health {path!r}: not a path that can be asked for as it is")


def _check_executable(name: str, path: str | None) -> None:
    if shutil.which(name, path=path) is not None:
        return
    if os.sep in name and Path(name).exists():
        raise RefusalError(f"{name}: not an executable file")
    where = "there is no such file" if os.sep in name else "not found in PATH"
    raise RefusalError(f"{name}: {where}; the server's command stands after --")


def _options(command: Sequence[str], *names: str) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in names and equals:
            yield name, value
        elif word in names and index + 1 < len(command):
            yield word, command[index + 1]


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.version == 4 and address.is_loopback
