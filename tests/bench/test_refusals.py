# SPDX-License-Identifier: Apache-2.0
"""What is refused, in one sentence and with status 2, before anything is started."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from tests.bench.conftest import TEXT

from startup_plan.cli import main as cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.conftest import Measure

ANY = "0.0.0.0"  # noqa: S104  # to be refused


@pytest.fixture
def refused(tmp_path: Path, port: int, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Gives the sentence of a refusal, after making sure that nothing was started or written."""
    started = tmp_path / "started"
    default = [sys.executable, "-S", "-c", f"open({str(started)!r}, 'w')"]
    (tmp_path / "good.json").write_text(json.dumps(TEXT))

    def run(
        *options: str, command: list[str] | None = None, output: str = "out", request: str = ""
    ) -> str:
        folder = tmp_path / output
        existed = folder.exists()
        arguments = ["bench", "--output-dir", str(folder), "--port", str(port)]
        arguments += ["--request", request or str(tmp_path / "good.json"), *options]
        words = default if command is None else command
        status = cli.run([*arguments, *(["--", *words] if words else [])])

        assert (status, started.exists(), folder.exists()) == (2, False, existed)
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "no JSON"),
        ("\xff", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "a request is a JSON object"),
        ("{}", "give either `messages` (chat) or `prompt` (completions)"),
        ('{"messages": [], "prompt": ""}', "give either"),
        ('{"prompt": "", "stream": true}', "`stream` must be off"),
    ],
    ids=["cut", "no-utf8", "deep", "list", "neither", "both", "stream"],
)
def test_a_bad_request_is_refused(
    refused: Callable[..., str], tmp_path: Path, content: str, sentence: str
) -> None:
    """A request that is no JSON body for chat or completions is refused by name."""
    path = tmp_path / "bad.json"
    path.write_bytes(content.encode("latin-1"))
    words = refused(request=str(path))

    assert f"{path}: {sentence}" in words


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--phases", "uncached,warm"], "there is no phase 'warm'; there are uncached, cache-fill"),
        (["--phases", ","], "--phases names nothing"),
        (["--phases", "cache-hit"], "cache-hit needs cache-fill before it"),
        (["--phases", "cache-fill,plan-hit"], "plan-hit needs plan-fill before it"),
        (["--health", "health"], "give a path such as /health"),
        (["--health", "//elsewhere/health"], "give a path such as /health"),
        (["--health", "http://127.0.0.1/health"], "give a path such as /health"),
        (["--health", "/hea lth"], "not a path that can be asked for"),
        (["--env", "NAME"], "write it as NAME=VALUE"),
        (["--env", "VLLM_CACHE_ROOT=/x"], "the benchmark sets this itself"),
        (["--env", "VLLM_ENABLE_STARTUP_PLAN=1"], "the benchmark sets this itself"),
        (["--repeats", "0"], "--repeats"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "nan"], "--timeout nan: give seconds, at most 604800"),
        (["--grace", "inf"], "--grace inf: give seconds, at most 604800"),
        (["--port", "70000"], "--port"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_option_is_refused(
    refused: Callable[..., str], options: list[str], sentence: str
) -> None:
    """An option that cannot be followed is refused with the reason."""
    words = refused(*options)

    assert sentence in words


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ([], "write the server's command after --"),
        (["no-such-program-here"], "no-such-program-here: not found in PATH"),
        (["/no/such/program"], "/no/such/program: there is no such file"),
        (["/etc/passwd"], "/etc/passwd: not an executable file"),
        ([sys.executable, "--host", ANY], "--host 0.0.0.0, which other machines can reach"),
        ([sys.executable, "--host=::"], "--host ::, which other machines can reach"),
        ([sys.executable, "--host", "example.org"], "which other machines can reach"),
        ([sys.executable, "--port", "1"], "the command says --port 1 and the benchmark --port"),
    ],
    ids=["none", "unknown", "absent", "no-program", "all", "all-v6", "name", "other-port"],
)
def test_a_bad_command_is_refused(
    refused: Callable[..., str], command: list[str], sentence: str
) -> None:
    """A command that cannot be run, or would be reachable by others, is refused."""
    words = refused(command=command)

    assert sentence in words


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost"])
def test_a_loopback_host_is_no_reason_to_refuse(refused: Callable[..., str], host: str) -> None:
    """A server that is told to listen on the loopback address is not refused for that."""
    words = refused(command=[sys.executable, "--host", host, "--port", "1"])

    assert ("other machines" in words, "the command says --port 1" in words) == (False, True)


def test_options_without_two_dashes_are_refused(refused: Callable[..., str]) -> None:
    """A command that follows the options without -- is not mistaken for anything else."""
    words = refused("vllm", "serve", command=[])

    assert "vllm: write -- before the server's command" in words


def test_a_missing_request_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without a request there is no first answer to measure."""
    arguments = ["bench", "--output-dir", str(tmp_path / "out"), "--port", "9", "--", "true"]
    status = cli.run(arguments)

    assert (status, "give at least one --request" in capsys.readouterr().err) == (2, True)


def test_a_request_that_cannot_be_read_is_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    """A missing file is refused by name."""
    words = refused(request=str(tmp_path / "absent.json"))

    assert "absent.json: cannot be read (No such file or directory)" in words


def test_an_output_folder_that_exists_is_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    """Results are never written over others."""
    (tmp_path / "here").mkdir()
    words = refused(output="here")

    assert ("exists already" in words, os.listdir(tmp_path / "here")) == (True, [])


def test_a_dangling_link_as_output_folder_is_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    """A link that leads nowhere counts as something that exists."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    words = refused(output="link")

    assert "exists already" in words


def test_an_output_folder_that_cannot_be_made_is_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    """A folder below something that is no folder is refused before a server is launched."""
    (tmp_path / "file").write_text("")
    words = refused(output="file/out")

    assert "cannot be made (Not a directory)" in words


@pytest.mark.parametrize("address", ["127.0.0.1", ANY])
def test_a_port_in_use_is_refused(refused: Callable[..., str], port: int, address: str) -> None:
    """A port that somebody listens on is refused, and that somebody is left alone."""
    with socket.create_server((address, port)) as other:
        words = refused()
        still_there = other.fileno() >= 0

    assert (f"port {port} is listened on at {address}" in words, still_there) == (True, True)


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ("redirect", "the server redirects to http://elsewhere.invalid/health"),
        ("all-addresses", "listens on 0.0.0.0 port"),
    ],
)
def test_what_only_a_running_server_shows_is_refused(
    measure: Measure, behaviour: str, sentence: str
) -> None:
    """A server that redirects, or that others can reach, is ended and refused with status 2."""
    outcome = measure(behaviour, phases="uncached,cache-fill")
    results = outcome.results
    (run,) = results["runs"]

    assert (outcome.status, sentence in outcome.err) == (2, True)
    assert (results["status"], sentence in results["reason"], run["ending"]["how"]) == (
        "refused",
        True,
        "TERM",
    )


def test_a_foreign_server_on_the_port_is_refused(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What answers must be the server that was launched."""
    monkeypatch.setattr("startup_plan.support.ports.holds_one", lambda *_: False)
    outcome = measure(phases="uncached")

    assert (outcome.status, "is not the server that was launched" in outcome.err) == (2, True)
