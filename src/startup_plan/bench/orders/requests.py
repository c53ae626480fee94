# SPDX-License-Identifier: Apache-2.0
"""The requests that every server has to answer, read and judged before anything is started."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.bench.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LARGEST: Final = 64 << 20


@final
@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        name: short and unique within a benchmark; the name of its file.
        endpoint: the path it goes to.
        body: the JSON document as it will be sent, byte for byte as in the file.
        greedy: whether it asks for the likeliest token each time, so that answers can be equal.
    """

    name: str
    endpoint: str
    body: bytes
    greedy: bool

    @property
    def sha256(self) -> str:
        """Say which bytes were sent."""
        return hashlib.sha256(self.body).hexdigest()


def load_requests(paths: Iterable[Path]) -> tuple[Request, ...]:
    """Read all requests.

    Raises:
        RefusalError: one cannot be read, or is no request that can be answered in one piece.
    """
    requests: list[Request] = []
    for path in paths:
        name, number = path.stem or "request", 1
        while any(request.name == name for request in requests):
            number += 1
            name = f"{path.stem}-{number}"
        requests.append(_load(path, name))
    if not requests:
        raise RefusalError("give at least one --request FILE: a start-up ends with an answer")
    return tuple(requests)


def _load(path: Path, name: str) -> Request:
    try:
        with path.open("rb") as file:
            body = file.read(_LARGEST + 1)
    except OSError as error:
        raise RefusalError(f"--request {path}: cannot be read ({error.strerror})") from error
    if len(body) > _LARGEST:
        raise RefusalError(f"--request {path}: larger than {_LARGEST >> 20} MiB")
    try:
        document: Any = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"--request {path}: no JSON ({error})") from error
    if not isinstance(document, dict):
        raise RefusalError(
            f"--request {path}: a request is a JSON object with messages or a prompt"
        )
    if ("messages" in document) == ("prompt" in document):
        raise RefusalError(
            f"--request {path}: give either `messages` (chat) or `prompt` (completions)"
        )
    if document.get("stream"):
        raise RefusalError(f"--request {path}: `stream` must be off; answers are compared whole")
    endpoint = "/v1/chat/completions" if "messages" in document else "/v1/completions"
    return Request(name, endpoint, body, greedy=_is_zero(document.get("temperature")))


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0
