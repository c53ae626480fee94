# SPDX-License-Identifier: Apache-2.0
"""Runs a call in a child process that may hang, eat memory or die without harm to the tests.

Opening a FIFO blocks inside the kernel, where no exception of another thread reaches it, and
reading `/dev/zero` ends with the memory of the machine. The child is a fork, so that it starts in
milliseconds with everything that the test has prepared, runs Python alone, and leaves through
`os._exit` without running anybody's clean-up.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import select
import signal
import struct
import time
import tracemalloc
from typing import TYPE_CHECKING, Any, Final, Literal, final

from .channel import die_with_parent
from .process_group import fork

if TYPE_CHECKING:
    from collections.abc import Callable

_PREPARE_SECONDS: Final = 60.0
_STARTED: Final = b"s"
_CAP_VERSION: Final = 0x20080522
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@final
class Outcome:
    """What became of a call in a child process. Sizes are bytes.

    Attributes:
        kind: "returned", "raised", "hung" (it was killed at the limit) or "died" (a signal, or an
            exit in the middle).
        value: what it returned; must survive a pickle.
        error: what it raised or how it died, in words.
        allocated: the most that Python had allocated beyond what it held before the call; 0 where
            that was not asked for, because tracing makes everything some times slower.
        resident: growth of the largest resident set, None where the kernel does not say.
        read: bytes that it read through system calls, None where the kernel does not say.
    """

    __slots__ = ("allocated", "error", "kind", "read", "resident", "value")

    def __init__(
        self,
        kind: Literal["returned", "raised", "hung", "died"],
        value: Any = None,
        error: str = "",
        allocated: int = 0,
        resident: int | None = None,
        read: int | None = None,
    ) -> None:
        """Hold the findings."""
        self.kind = kind
        self.value = value
        self.error = error
        self.allocated = allocated
        self.resident = resident
        self.read = read

    def __str__(self) -> str:
        """One clause of a story."""
        return f"{self.kind} {self.value}" if self.kind == "returned" else self.error or self.kind


def run_isolated(
    call: Callable[[], object],
    *,
    seconds: float,
    extra_bytes: int,
    prepare: Callable[[], object] | None = None,
    trace: bool = False,
) -> Outcome:
    """Run `call` in a child process.

    Args:
        call: what to run.
        seconds: how long it may take before it counts as hung and is killed.
        extra_bytes: how much address space it may take beyond what this process has.
        prepare: run first in the child, outside all limits and measurements: a warm-up, or a change
            of the process that cannot be undone.
        trace: whether to find out what Python allocates.

    Raises:
        RuntimeError: `prepare` failed; then nothing is known about `call`.
    """
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        os.close(reading)
        _be_child(writing, lambda: _measured(call, extra_bytes, trace=trace), prepare)
    os.close(writing)
    try:
        message = _receive(reading, seconds)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if message is None:
        return Outcome("hung", error=f"had not come back after {seconds:g} s")
    if not message:
        code = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Outcome("died", error=f"ended its process ({how})")
    fields = pickle.loads(message)  # noqa: S301  # written by our own child
    if fields["kind"] == "unprepared":
        raise RuntimeError(f"the child could not be prepared: {fields['error']}")
    return Outcome(**fields)


def drop_override() -> None:
    """Give up root's right to ignore the modes of files, in this process for good.

    The user stays the same, so that folders which only this user may pass stay open. Without root
    there is nothing to give up.

    Raises:
        OSError: the kernel refused.
    """
    header = struct.pack("=Ii", _CAP_VERSION, 0)
    data = ctypes.create_string_buffer(24)
    _checked(_LIBC.capget(header, data))
    words = list(struct.unpack("=6I", data.raw))
    # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH; effective, permitted and inheritable, low words.
    words[:3] = [word & ~0b110 for word in words[:3]]
    _checked(_LIBC.capset(header, struct.pack("=6I", *words)))


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _receive(reading: int, seconds: float) -> bytes | None:
    """What the child sends once it has started: b"" if it ends first, None if it takes too long."""
    message = b""
    deadline = time.monotonic() + _PREPARE_SECONDS
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    started = False
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        part = os.read(reading, 65536)
        if not part:
            return message
        message += part
        if not started:
            started, message = True, message.removeprefix(_STARTED)
            deadline = time.monotonic() + seconds
    return None


def _be_child(
    writing: int,
    measured: Callable[[], dict[str, object]],
    prepare: Callable[[], object] | None,
) -> None:
    """Everything that the child does; never returns."""
    try:
        # The test process may be killed outright; a hung child must not outlive it.
        die_with_parent()
        try:
            if prepare is not None:
                prepare()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
            _send(writing, _STARTED + pickle.dumps({"kind": "unprepared", "error": text}))
            return
        _send(writing, _STARTED)
        _send(writing, pickle.dumps(measured()))
    finally:
        os._exit(0)


def _measured(call: Callable[[], object], extra_bytes: int, *, trace: bool) -> dict[str, object]:
    # A collection would copy every page that it marks, and count as memory of the call.
    gc.disable()
    if trace:
        tracemalloc.start()
    _reset_peak()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held, size, read = _status("VmHWM"), _status("VmSize"), _bytes_read()
    if size is not None:
        resource.setrlimit(resource.RLIMIT_AS, (size + extra_bytes, hard))
    before, _ = tracemalloc.get_traced_memory()
    found: dict[str, object]
    try:
        found = {"kind": "returned", "value": call()}
    except BaseException as error:
        found = {"kind": "raised", "error": f"{type(error).__name__}: {str(error)[:200]}"}
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    total, now = _bytes_read(), _status("VmHWM")
    found["allocated"] = most - before
    found["resident"] = None if held is None or now is None else now - held
    found["read"] = None if read is None or total is None else total - read
    return found


def _send(writing: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(writing, rest) :]


def _reset_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "wb") as stream:
        stream.write(b"5")


def _status(field: str) -> int | None:
    """A size of this process in bytes, as the kernel reports it."""
    with contextlib.suppress(OSError), open("/proc/self/status", "rb") as stream:
        for line in stream:
            if line.startswith(field.encode()):
                return int(line.split()[1]) * 1024
    return None


def _bytes_read() -> int | None:
    with contextlib.suppress(OSError), open("/proc/self/io", "rb") as stream:
        for line in stream:
            if line.startswith(b"rchar"):
                return int(line.split()[1])
    return None
