# SPDX-License-Identifier: Apache-2.0
"""What a server is launched with, and what of it is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from startup_plan.bench.orders.caches import FOLDERS, make_caches, on_a_copy
from startup_plan.bench.orders.environment import (
    LEFT_OUT,
    MARKER,
    command_without_secrets,
    environment_of,
    without_secrets,
)
from startup_plan.bench.orders.phases import PHASES, choose_phases

BY_NAME = {phase.name: phase for phase in PHASES}


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "VLLM_API_KEY",
        "S3_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "PGPASSWORD",
        "GIT_PAT",
        "SENTRY_DSN",
        "HTTP_AUTHORIZATION",
        "SESSION_COOKIE",
        "SSH_PRIVATE",
        "my_api_key",
    ],
)
def test_a_secret_is_left_out(name: str) -> None:
    """A variable whose name says that it is secret is written down without its value."""
    assert without_secrets({name: "s3cr3t"}) == {name: LEFT_OUT}


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "VLLM_CACHE_ROOT",
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "KEYBOARD",
        "MONKEY",
        "LANG",
    ],
)
def test_what_is_no_secret_is_kept(name: str) -> None:
    """A variable that only looks a little like a secret is written down as it is."""
    assert without_secrets({name: "value"}) == {name: "value"}


def test_a_password_in_an_address_is_left_out() -> None:
    """A user and a password within an address do not get into the records."""
    assert without_secrets({"HTTP_PROXY": "http://user:pass@proxy:1"}) == {
        "HTTP_PROXY": f"http://{LEFT_OUT}@proxy:1"
    }


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["vllm", "--api-key", "s3"], ["vllm", "--api-key", LEFT_OUT]),
        (["vllm", "--api-key=s3"], ["vllm", f"--api-key={LEFT_OUT}"]),
        (["vllm", "--hf-token", "--port", "1"], ["vllm", "--hf-token", "--port", "1"]),
        (["vllm", "--tokenizer", "path"], ["vllm", "--tokenizer", "path"]),
        (["vllm", "--max-num-batched-tokens", "8"], ["vllm", "--max-num-batched-tokens", "8"]),
    ],
)
def test_a_secret_on_the_command_line_is_left_out(command: list[str], shown: list[str]) -> None:
    """The value of an option that is secret by its name is left out, and no other."""
    assert command_without_secrets(command) == shown


@pytest.mark.parametrize(
    ("phase", "disable", "plan", "force"),
    [
        ("uncached", "1", "0", "0"),
        ("cache-fill", "0", "0", "0"),
        ("first-reload", "0", "0", "1"),
        ("cache-hit", "0", "0", "0"),
        ("plan-fill", "0", "1", "0"),
        ("plan-hit", "0", "1", "0"),
    ],
)
def test_a_phase_sets_its_variables(phase: str, disable: str, plan: str, force: str) -> None:
    """Each phase sets all three switches, whatever was set before."""
    inherited = {"VLLM_DISABLE_COMPILE_CACHE": "x", "VLLM_ENABLE_STARTUP_PLAN": "x", "OTHER": "o"}
    found = environment_of(
        BY_NAME[phase], caches=Path("/c"), marker="m", extra={"EXTRA": "e"}, inherited=inherited
    )

    assert (
        found["VLLM_DISABLE_COMPILE_CACHE"],
        found["VLLM_ENABLE_STARTUP_PLAN"],
        found["VLLM_FORCE_AOT_LOAD"],
    ) == (disable, plan, force)
    assert (found[MARKER], found["OTHER"], found["EXTRA"]) == ("m", "o", "e")


def test_caches_are_private_and_downloads_are_not() -> None:
    """Every cache lies below the output folder; weights stay where they were downloaded to."""
    inherited = {"XDG_CACHE_HOME": "/home/u/cache", "TRITON_CACHE_DIR": "/warm"}
    found = environment_of(
        BY_NAME["uncached"], caches=Path("/out/c"), marker="m", extra={}, inherited=inherited
    )

    assert {name for name in FOLDERS if not found[name].startswith("/out/c/")} == set()
    assert found["HF_HOME"] == "/home/u/cache/huggingface"


def test_a_given_place_for_downloads_is_kept() -> None:
    """Where the user keeps downloads is left as it is."""
    found = environment_of(
        BY_NAME["uncached"],
        caches=Path("/out/c"),
        marker="m",
        extra={"HF_HOME": "/models"},
        inherited={},
    )

    assert found["HF_HOME"] == "/models"


def test_phases_run_in_their_order_and_once() -> None:
    """However phases are listed, they run in the order in which they build on each other."""
    chosen = choose_phases(" cache-hit,uncached, cache-fill,,cache-hit")

    assert [phase.name for phase in chosen] == ["uncached", "cache-fill", "cache-hit"]


def test_the_first_reload_has_to_be_asked_for() -> None:
    """Without a list every phase runs but the optional one."""
    assert [phase.name for phase in choose_phases(None)] == [
        "uncached",
        "cache-fill",
        "cache-hit",
        "plan-fill",
        "plan-hit",
    ]


def test_a_copy_is_used_and_the_original_comes_back(tmp_path: Path) -> None:
    """Whatever is done to the copy, even if it ends badly, the original is there afterwards."""
    caches = tmp_path / "caches" / "1"
    make_caches(caches)
    (caches / "vllm" / "artifact").write_text("first")
    (caches / "vllm" / "link").symlink_to("artifact")

    def use_badly() -> None:
        with on_a_copy(caches):
            assert (caches / "vllm" / "artifact").read_text() == "first"
            (caches / "vllm" / "artifact").write_text("second")
            raise KeyError

    with pytest.raises(KeyError):
        use_badly()
    kept = {
        name: (caches.parent / name / "vllm" / "artifact").read_text()
        for name in ("1", "1.initial", "1.after-first-reload")
    }

    assert kept == {"1": "first", "1.initial": "first", "1.after-first-reload": "second"}
    assert (caches / "vllm" / "link").is_symlink()
