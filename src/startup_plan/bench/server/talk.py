# SPDX-License-Identifier: Apache-2.0
"""Talks to the server over the loopback address, past any proxy and without following redirects."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from startup_plan.bench.errors import RefusalError
from startup_plan.bench.orders.benchmark import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_ANSWER: Final = 256 << 20


@final
@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for a request.

    Args:
        status: the HTTP status, or None if there was no answer.
        body: the bytes of the answer.
        sent: when the request was sent, on the monotonic clock.
        done: when the answer was complete.
        trouble: why there was no answer.
    """

    status: int | None
    body: bytes
    sent: float
    done: float
    trouble: str = ""


def is_healthy(port: int, path: str, timeout: float) -> bool:
    """Ask once; anything but status 200 is a no, and so is silence for `timeout` seconds.

    Raises:
        RefusalError: the server sends to another place instead of answering.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read(1 << 16)
        if 300 <= response.status < 400:
            where = response.getheader("location", "nowhere")
            raise RefusalError(
                f"--health {path}: the server redirects to {where}; "
                "give the path that itself answers with status 200"
            )
    except (OSError, http.client.HTTPException):
        return False
    else:
        return response.status == 200
    finally:
        connection.close()


@final
class Exchange:
    """One request under way in a thread, so that whoever waits can still hear a signal."""

    __slots__ = ("_connection", "_reply", "_thread")

    def __init__(self, port: int, endpoint: str, body: bytes, timeout: float) -> None:
        """Send `body`; between any two parts of the answer at most `timeout` seconds may pass."""
        self._reply: Reply | None = None
        self._connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
        self._thread = threading.Thread(target=self._run, args=(endpoint, body), daemon=True)
        self._thread.start()

    def wait(self, look: Callable[[], bool]) -> Reply | None:
        """Give the reply; or None as soon as `look`, which is asked now and then, says to stop."""
        while self._thread.is_alive():
            self._thread.join(0.02)
            if self._thread.is_alive() and look():
                return None
        return self._reply

    def _run(self, endpoint: str, body: bytes) -> None:
        sent = time.monotonic()
        status, content, trouble = None, b"", ""
        try:
            headers = {"Content-Type": "application/json"}
            self._connection.request("POST", endpoint, body, headers)
            response = self._connection.getresponse()
            content = response.read(_LARGEST_ANSWER)
            status = response.status
        except (OSError, http.client.HTTPException) as error:
            trouble = f"{type(error).__name__}: {error}"
        finally:
            self._connection.close()
        self._reply = Reply(status, content, sent, time.monotonic(), trouble)
