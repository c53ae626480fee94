# SPDX-License-Identifier: Apache-2.0
"""What may be a secret, by its name or by its form (SAVE-14). Pure.

Plans can be read by every user of a host, and logs travel further. So what may be a secret is left
out of both, not in clear and not as a digest either: a short one is found by trying them all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHHELD: Final = "(withheld)"
"""What stands for a value that may be a secret."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ANYWHERE: Final = frozenset({
    "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credential",
    "credentials", "authorization", "bearer", "cookie", "cookies", "apikey",
})  # fmt: skip
# Of `token_threshold`, `pin_memory` and `key_cache` none is a secret.
_AT_THE_END: Final = frozenset({
    "token", "key", "pass", "pw", "pwd", "pin", "auth", "dsn", "otp", "sas", "signature",
})  # fmt: skip
_IN_A_TEXT: Final = re.compile(
    r"""://[^/\s]*@ | [?&;](sig|signature|key|token)= | \b(bearer|basic)\s
    | (token|secret|passw\w*|passphrase|credentials?|api.?key|access.?key|private.?key|pin)
      ['"]?\s*[=:,\s]""",
    re.IGNORECASE | re.VERBOSE,
)
# Looked for first, because most names have none of them in it.
_HINT: Final = re.compile(
    "secret|pass|pw|credential|authori|bearer|cookie|key|token|pin|auth|dsn|otp|sas|signature",
    re.IGNORECASE,
)
_SHORTEST: Final = 4


def is_secret(name: str) -> bool:
    """Whether what is called `name`, a variable or a setting, may be a secret."""
    if _HINT.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    if words[-2:] == ["key", "id"]:
        return True
    return not _ANYWHERE.isdisjoint(words) or (bool(words) and words[-1] in _AT_THE_END)


def holds_secret(value: object) -> bool:
    """Whether a value that has been spelled out, or a text, may hold a secret."""
    if isinstance(value, str):
        return is_secret(value) or _IN_A_TEXT.search(value) is not None
    if isinstance(value, dict):
        return any(holds_secret(key) or holds_secret(item) for key, item in value.items())
    return isinstance(value, list) and any(map(holds_secret, value))


def for_the_log(text: str, environ: Mapping[str, str]) -> str:
    """`text`, of an error that somebody else has raised, if it holds no secret.

    Args:
        text: the text.
        environ: the environment; what its secret variables hold is not let through.
    """
    known = [value for name, value in environ.items() if is_secret(name)]
    if _IN_A_TEXT.search(text) or any(len(v) >= _SHORTEST and v in text for v in known):
        return WITHHELD
    return text
