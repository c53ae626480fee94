# SPDX-License-Identifier: Apache-2.0
"""Runs code that nobody trusts in a process of its own, and believes only what it says in time.

A startup plan under judgement is somebody's file. It may end the process that imports it, wait for
ever, flood its output, eat memory, or leave processes behind. None of that may reach whoever asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from .channel import die_with_parent
from .process_group import fork, no_process_left

if TYPE_CHECKING:
    from collections.abc import Callable

MIB: Final = 2**20
_OUTPUT_BYTES: Final = 64 * MIB
_ANSWER_BYTES: Final = 4 * MIB
_EXTRA_MEMORY: Final = 8192 * MIB
_FILE_BYTES: Final = 1024 * MIB


class ApartError(Exception):
    """The process gave no answer; the message says, as a verb phrase, what became of it."""


class AnsweredError(Exception):
    """What was called raised an error that it had to tell of; the message is the error's own."""


def run_apart(
    call: Callable[[], object], *, seconds: float, tells: type[Exception] | tuple[()] = ()
) -> Any:
    """Give what `call` returns, as JSON has it, after it ran in a forked process.

    Args:
        call: what to run; its value must be one that JSON can hold.
        seconds: how long it may take.
        tells: the errors whose messages are meant for whoever asks.

    Raises:
        AnsweredError: `call` raised one of `tells`.
        ApartError: it gave no answer: it ended by itself, was ended by a signal, took too long,
            wrote more than 64 MiB to its output, or raised something else.
    """
    asking, answering = os.pipe()
    printed, printing = os.pipe()
    with no_process_left():
        child = fork()
        if child == 0:
            _be_child(call, answering, printing, tells)
        os.close(answering)
        os.close(printing)
        try:
            heard = _listen(asking, printed, seconds)
        finally:
            os.close(asking)
            os.close(printed)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
    return _understood(heard, os.waitstatus_to_exitcode(status))


def describe_end(status: int) -> str:
    """Say how a process ended, as a verb phrase, from its status as `subprocess` has it."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by signal {-status} ({signal.Signals(-status).name})"
        return f"was ended by signal {-status}"
    return f"ended by itself with status {status}"


def _understood(heard: bytes, status: int) -> Any:
    if not heard.endswith(b"\n"):
        raise ApartError(describe_end(status))
    try:
        answer = json.loads(heard)
        kind, value = answer["kind"], answer["value"]
    except (ValueError, KeyError, TypeError):
        raise ApartError("wrote into every open file, this one's answer included") from None
    if kind == "told":
        raise AnsweredError(value)
    if kind == "raised":
        raise ApartError(value)
    return value


def _listen(asking: int, printed: int, seconds: float) -> bytes:
    """The line that the child answers, or what there was of it when the child ended.

    Raises:
        ApartError: it took too long, or printed or said too much.
    """
    deadline = time.monotonic() + seconds
    heard, output = b"", 0
    poll = select.poll()
    poll.register(asking, select.POLLIN)
    poll.register(printed, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            part = os.read(descriptor, 1 << 20)
            if descriptor == printed:
                output += len(part)
                if not part:
                    poll.unregister(printed)
                continue
            heard += part
            if not part or heard.endswith(b"\n"):
                return heard
        if output > _OUTPUT_BYTES or len(heard) > _ANSWER_BYTES:
            raise ApartError(f"wrote more than {_OUTPUT_BYTES // MIB} MiB")
    raise ApartError(f"gave no answer within {seconds:g} s")


def _be_child(
    call: Callable[[], object],
    answering: int,
    printing: int,
    tells: type[Exception] | tuple[()],
) -> None:
    """Everything that the child does; never returns."""
    try:
        parent = os.getppid()
        os.setsid()
        die_with_parent(parent)
        _own_descriptors(answering, printing)
        _limit()
        me = os.getpid()
        answer: dict[str, object]
        try:
            answer = {"kind": "value", "value": call()}
        except tells as error:
            answer = {"kind": "told", "value": str(error)}
        except BaseException as error:
            said = " ".join(str(error).split())[:300]
            answer = {"kind": "raised", "value": f"raised {type(error).__name__}: {said}"}
        if os.getpid() == me:
            # A line of its own, written past whatever became of Python's streams.
            line = memoryview(json.dumps(answer).encode() + b"\n")
            while line:
                line = line[os.write(answering, line) :]
    finally:
        os._exit(0)


def _own_descriptors(answering: int, printing: int) -> None:
    """Leave the child nothing of its parent's open files, and streams of its own."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for mine, theirs in ((nothing, 0), (printing, 1), (printing, 2)):
        os.dup2(mine, theirs)
    os.closerange(3, answering)
    os.closerange(answering + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # for good
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115


def _limit() -> None:
    """Let it eat neither the memory nor the disk of the machine."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        size = int(stream.read().split()[0]) * resource.getpagesize()
    for limit, most in (
        (resource.RLIMIT_AS, size + _EXTRA_MEMORY),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (most if hard < 0 else min(most, hard), hard))
