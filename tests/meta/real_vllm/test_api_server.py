# SPDX-License-Identifier: Apache-2.0
"""The helper that runs a vLLM server, tried on a small server that goes by the same name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.real_vllm.api_server import ApiServer, ServerError, members

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SERVER: Final = """
import http.server, json, os, signal, subprocess, sys
print("arguments", sys.argv[1:], flush=True)
if "--broken" in sys.argv:
    sys.exit("the engine is broken")
# A process of its own that does not heed a polite request, as a busy worker does not.
deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); input()"
child = subprocess.Popen(
    [sys.executable, "-c", deaf], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
child.stdout.readline()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/echo" else 404)
        self.end_headers()
        self.wfile.write(body)

port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ApiServer]:
    """Makes a server of the given arguments whose module is the small one."""
    monkeypatch.setattr("startup_plan.harness.real_vllm.api_server._END_SECONDS", 0.5)
    package = tmp_path / "modules" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (package / "api_server.py").write_text(_SERVER)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "modules")}
    return lambda *arguments: ApiServer(list(arguments), tmp_path / "log", environment)


def test_server_answers_and_is_ended_whole(server: Callable[..., ApiServer]) -> None:
    """A server is ready when entered, answers, and is gone with all that it started when left."""
    with server("--some", "argument") as running:
        answer = running.ask("/echo", {"a": [1]})
        alive = members(running.pid)

    assert (answer, len(alive), members(running.pid)) == ({"a": [1]}, 2, [])
    assert "'--some', 'argument'" in running.log()


def test_server_is_ended_on_interruption(server: Callable[..., ApiServer]) -> None:
    """An interruption, such as Ctrl-C, leaves no process behind."""
    with pytest.raises(KeyboardInterrupt), server() as running:
        raise KeyboardInterrupt

    assert members(running.pid) == []


def test_server_that_ends_is_told_with_its_last_words(server: Callable[..., ApiServer]) -> None:
    """A server that does not come up fails with its status and the end of its log."""
    broken = server("--broken")
    with pytest.raises(ServerError) as caught, broken:
        pytest.fail("it was ready")

    assert "ended with status 1" in str(caught.value)
    assert "the engine is broken" in str(caught.value)


def test_server_that_is_not_ready_is_ended(
    server: Callable[..., ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is not ready in time is ended and told with its log."""
    monkeypatch.setattr("startup_plan.harness.real_vllm.api_server._READY_SECONDS", 0.0)
    late = server()
    with pytest.raises(ServerError, match="was not ready after 0 s"), late:
        pytest.fail("it was ready")

    assert members(late.pid) == []


def test_bad_answer_is_told(server: Callable[..., ApiServer]) -> None:
    """A question that is answered with an error fails with the status and what was said."""
    with server() as running, pytest.raises(ServerError, match=r'/none: 404 {"b": 2}'):
        running.ask("/none", {"b": 2})
