# SPDX-License-Identifier: Apache-2.0
"""Where reports go: checked before the run, written in one piece after it."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_EXCLUSIVE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class ReportPathError(Exception):
    """A report cannot be written; the message is one sentence with the remedy."""


def check_writable(path: Path) -> None:
    """Find out, without touching what is at `path`, whether a report can be written there.

    Raises:
        ReportPathError: when it cannot.
    """
    try:
        if _is_special(path):
            # Opening a pipe would wait for its reader.
            if not os.access(path, os.W_OK):
                raise PermissionError(None, "you may not write to it")
            return
        descriptor, temporary = _temporary(path)
        os.close(descriptor)
        temporary.unlink()
    except (OSError, ValueError) as error:
        raise _cannot(path, error) from error


def write_report(path: Path, text: str) -> None:
    """Put `text` at `path` in one step, so that no reader ever sees half of it.

    A device or pipe is written to as it is: it must not be replaced by a file.

    Raises:
        ReportPathError: when it cannot be written; what was there before is still there.
    """
    try:
        if _is_special(path):
            path.write_text(text, encoding="utf-8")
            return
        descriptor, temporary = _temporary(path)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            temporary.replace(path.resolve())
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except (OSError, ValueError) as error:
        raise _cannot(path, error) from error


def _is_special(path: Path) -> bool:
    """Say whether something lies there that is neither a file nor a folder."""
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder; name a file in it")
    return path.exists() and not path.is_file()


def _temporary(path: Path) -> tuple[int, Path]:
    """Open a fresh file beside the report, where `replace` can publish it."""
    folder = path.resolve().parent
    temporary = folder / f".startup-plan-{secrets.token_hex(8)}.tmp"
    return os.open(temporary, _EXCLUSIVE, 0o666), temporary


def _cannot(path: Path, error: OSError | ValueError) -> ReportPathError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ReportPathError(
        f"cannot write the report {path} ({reason}): name a file in a folder that you may write to"
    )
