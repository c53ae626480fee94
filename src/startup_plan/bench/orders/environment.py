# SPDX-License-Identifier: Apache-2.0
"""The environment and the command of a server, and the same with what is secret left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from startup_plan.bench.errors import RefusalError
from startup_plan.support.environment import FLAG

from .caches import FOLDERS, cache_environment
from .phases import DISABLE_CACHE, FORCE_LOAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .phases import Phase

MARKER: Final = "STARTUP_PLAN_BENCH_RUN"
"""The variable by which a process of a server is known, wherever it has gone."""

LEFT_OUT: Final = "(left out)"

_OWN: Final = frozenset({DISABLE_CACHE, FLAG, FORCE_LOAD, MARKER, *FOLDERS})
_SECRET: Final = re.compile(
    r"token|secret|passw|passphrase|credential|auth|cookie|private"
    r"|(?:^|[_-])(?:api|access|account|signing|encryption)?[_-]?keys?(?:$|[_-])"
    r"|(?:^|[_-])(?:pat|pwd|dsn)(?:$|[_-])",
    re.IGNORECASE,
)
_USER_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_BEARER: Final = re.compile(r"(?i)(?<=bearer )\S+")
# Options of servers that would look secret by their names, and say how to count or to split text.
_HARMLESS: Final = re.compile(r"tokeni[sz]|tokens|token-ids?$|token_ids?$", re.IGNORECASE)


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """Read what `--env` gave.

    Raises:
        RefusalError: one is no assignment, or sets what a phase sets.
    """
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or "\0" in pair:
            raise RefusalError(f"--env {_shown(pair)}: write it as NAME=VALUE")
        if name in _OWN:
            raise RefusalError(f"--env {name}: the benchmark sets this itself; leave it out")
        settings[name] = value
    return settings


def environment_of(
    phase: Phase,
    *,
    caches: Path,
    marker: str,
    extra: Mapping[str, str],
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """Give the whole environment of a server in `phase`."""
    return {
        **inherited,
        **extra,
        **cache_environment(caches, {**inherited, **extra}),
        **phase.settings,
        MARKER: marker,
    }


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Give the environment for the records: sorted, and no value that looks like a secret."""
    return {
        name: LEFT_OUT if _is_secret(name) else _cleaned(value)
        for name, value in sorted(environment.items())
    }


def command_without_secrets(command: Sequence[str]) -> list[str]:
    """Give the command for the records: the values of options that look secret are left out."""
    shown = []
    hide_next = False
    for word in command:
        option, equals, _ = word.partition("=")
        is_option = word.startswith("-")
        if hide_next and not is_option:
            shown.append(LEFT_OUT)
        elif is_option and equals and _is_secret(option):
            shown.append(f"{option}={LEFT_OUT}")
        else:
            shown.append(_cleaned(word))
        hide_next = is_option and not equals and _is_secret(word)
    return shown


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(_HARMLESS.sub("", name.lstrip("-"))))


def _cleaned(value: str) -> str:
    return _BEARER.sub(LEFT_OUT, _USER_IN_URL.sub(LEFT_OUT, value))


def _shown(pair: str) -> str:
    return repr(pair) if len(pair) <= 40 else repr(pair[:40]) + "…"
