# SPDX-License-Identifier: Apache-2.0
"""The tracer says what happened, and the recorder of operations says the same."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.kernel.events import of_calls, with_names_in_order
from startup_plan.harness.kernel.strace import Fault, run_traced
from startup_plan.harness.kernel.trace import Call, KernelError, read_window
from startup_plan.harness.kernel.trial import KernelSave
from startup_plan.harness.operations.save_trial import SaveTrial
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World
from startup_plan.harness.zoo.seed import REWRITE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from startup_plan.harness.kernel.held_child import Window

NEEDS_PTRACE: Final = pytest.mark.needs("ptrace")

WRITER: Final = """
import json, os, pathlib, tempfile
from vllm import envs

def maybe_apply_startup_plan(worker):
    pass

def maybe_save_startup_plan(worker, value):
    folder = os.path.join(envs.VLLM_CACHE_ROOT, "startup_plan")
    path = os.path.join(folder, "startup_plan_0123456789abcdef.json")
    document = {{"value": value, "padding": list(range(5000))}}
    {body}
"""

BODIES: Final = {
    "json.dump through open": """
    os.makedirs(folder, exist_ok=True)
    temporary = f"{path}.tmp.{os.getpid()}"
    with open(temporary, "w") as stream:
        json.dump(document, stream)
    os.replace(temporary, path)
""",
    "small pieces": """
    os.makedirs(folder, exist_ok=True)
    with open(f"{path}.new", "xb") as stream:
        for piece in json.JSONEncoder().iterencode(document):
            stream.write(piece.encode())
    os.replace(f"{path}.new", path)
""",
    "tempfile": """
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as stream:
        json.dump(document, stream)
        stream.flush()
        os.fchmod(stream.fileno(), 0o644)
        os.fsync(stream.fileno())
    os.rename(stream.name, path)
""",
    "pathlib": """
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    spare = place.with_suffix(".new")
    spare.write_text(json.dumps(document))
    spare.chmod(0o640)
    place.unlink(missing_ok=True)
    spare.rename(place)
    for name in place.parent.iterdir():
        name.stat()
""",
    "os with folder descriptors": """
    os.makedirs(folder, exist_ok=True)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    stem = os.urandom(4).hex()
    fd = os.open(stem, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=inside)
    data = json.dumps(document).encode()
    os.writev(fd, [data[:7], data[7:]])
    os.pwrite(fd, b" ", len(data))
    os.ftruncate(fd, len(data))
    os.fdatasync(fd)
    os.replace(stem, os.path.basename(path), src_dir_fd=inside, dst_dir_fd=inside)
    os.close(fd)
    os.link(path, f"{path}.link")
    os.unlink(f"{path}.link")
    os.mkdir(stem, 0o700, dir_fd=inside)
    os.rmdir(os.path.join(folder, stem))
    os.fsync(inside)
    os.close(inside)
""",
}

SUBJECTS: Final = ("reference", "the rewrite", *BODIES)


def file_of(name: str, folder: Path) -> str:
    """What `load_subject` is to be given."""
    if name == "reference":
        return name
    if name == "the rewrite":
        return str(REWRITE)
    file = folder / "writer.py"
    file.write_text(WRITER.format(body=BODIES[name].strip()))
    return str(file)


@NEEDS_PTRACE
@pytest.mark.parametrize("over_old", [False, True], ids=["first", "overwrite"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_recorder_notes_what_the_kernel_was_asked(
    tmp_path: Path, fresh_folder: Callable[[], Path], name: str, over_old: bool
) -> None:
    """Of one save the recorder and strace tell the same story, and recording changes none of it."""
    with World(load_subject(file_of(name, tmp_path)), fresh_folder()) as world:
        save = KernelSave(SaveTrial(world, over_old=over_old))
        recorded = save.recorded()
    seen = of_calls(recorded.calls)
    undisturbed = of_calls(save.clean.calls)

    assert (recorded.value, with_names_in_order(undisturbed)) == (seen, with_names_in_order(seen))
    assert {"open", "write", "close", "rename"} <= {event.what for event in seen}


TRACE: Final = """\
strace: Process 70 attached
access("/startup-plan-window/begin", 0) = -1 ENOENT (No such file or directory)
openat(-100</home>, "/root/a, (b", 0x80241, 0666) = 3</root/a, (b>
strace: Process 71 attached
[pid    71] write(3</root/a, (b>, ""..., 20 <unfinished ...>
[pid    70] unlinkat(5</root>, "c", 0 <unfinished ...>
[pid    71] <... write resumed>) = 20
[pid    70] <... unlinkat resumed>) = -1 EIO (Input/output error) (INJECTED)
[pid    71] +++ exited with 0 +++
openat(-100</home>, "/elsewhere/a", 0x80000) = 4</elsewhere/a>
fsync(3</root/a, (b>)                  = ?
+++ killed by SIGKILL +++
"""


def test_trace_is_read_as_strace_prints_it() -> None:
    """Names with separators, folder descriptors, interrupted lines, injected errors, a kill."""
    seen = read_window(TRACE, 70, "/root", "/home")
    file = "/root/a, (b"

    assert (seen.end, [(c.place, c.paths, c.result, c.error, c.injected) for c in seen.calls]) == (
        None,
        [
            ((0, "openat", 1), (file,), 3, "", False),
            ((1, "write", 1), (file,), 20, "", False),
            ((0, "unlinkat", 1), ("/root/c",), -1, "EIO", True),
            ((0, "fsync", 1), (file,), None, "", False),
        ],
    )


def test_unknown_system_call_is_refused() -> None:
    """A call on the root of which nothing is known is an error, not something to pass over."""
    text = TRACE.replace("fsync(", "open_tree(")

    with pytest.raises(KernelError, match="open_tree"):
        read_window(text, 70, "/root", "/home")


def test_trace_without_a_window_is_refused() -> None:
    """A tracer that saw nothing proves nothing."""
    with pytest.raises(KernelError, match="did not see the window"):
        read_window("strace: attach: Operation not permitted\n", 70, "/root", "/home")


@NEEDS_PTRACE
def test_error_is_injected_where_it_should(tmp_path: Path) -> None:
    """The second of two equal calls fails, and the process sees the error."""
    folder = str(tmp_path)
    clean = run_traced(lambda window: _make_two(window, folder), folder)
    at = [call for call in clean.calls if call.name.startswith("mkdir")][1]
    struck = run_traced(lambda window: _make_two(window, folder), folder, Fault(at, "EDQUOT"))

    assert (clean.value, struck.value, sorted(os.listdir(folder))) == (
        ["", ""],
        ["FileExistsError", "EDQUOT"],
        ["0", "1"],
    )


@NEEDS_PTRACE
def test_kill_comes_before_the_call_is_carried_out(tmp_path: Path) -> None:
    """A process killed at its second call has made the first and not the second."""
    folder = str(tmp_path)
    for name in "01":
        os.mkdir(os.path.join(folder, name))
    clean = run_traced(lambda window: _make_two(window, folder, unmake=True), folder)
    for name in "01":
        os.mkdir(os.path.join(folder, name))
    at = [call for call in clean.calls if call.name in {"rmdir", "unlinkat"}][1]
    struck = run_traced(
        lambda window: _make_two(window, folder, unmake=True), folder, Fault(at, "")
    )

    assert (struck.end, struck.raised, os.listdir(folder)) == (None, "", ["1"])


@NEEDS_PTRACE
def test_fault_that_does_not_happen_is_an_error(tmp_path: Path) -> None:
    """A fault at a call that is never made is reported, and judges nothing."""
    at = Call("mkdir", 99, 0, (), (), 0, "", False)

    with pytest.raises(KernelError, match="did not happen where it should"):
        run_traced(lambda window: _make_two(window, str(tmp_path)), str(tmp_path), Fault(at, "EIO"))


@NEEDS_PTRACE
def test_process_that_dies_on_its_own_is_told_apart(tmp_path: Path) -> None:
    """A signal that nobody injected is what the action came to, with its name."""

    def action(window: Window) -> None:
        with window:
            os.kill(os.getpid(), signal.SIGTERM)

    traced = run_traced(action, str(tmp_path))

    assert (traced.raised, traced.end) == ("the process ended (SIGTERM)", None)


@NEEDS_PTRACE
def test_process_that_hangs_is_ended(tmp_path: Path) -> None:
    """A window that does not close in time is closed by force, and said to have hung."""
    reading, writing = os.pipe()

    def action(window: Window) -> None:
        with window:
            os.read(reading, 1)

    traced = run_traced(action, str(tmp_path), seconds=0.5)
    os.close(reading)
    os.close(writing)

    assert (traced.hung, traced.end) == (True, None)


@NEEDS_PTRACE
def test_action_without_a_window_is_an_error(tmp_path: Path) -> None:
    """An action that raises before its window is an error with what it raised."""

    def action(_window: Window) -> None:
        raise LookupError("no such engine")

    with pytest.raises(KernelError, match="LookupError: no such engine"):
        run_traced(action, str(tmp_path))


def _make_two(window: Window, folder: str, *, unmake: bool = False) -> list[str]:
    """Make, or remove, two folders; give the error of each."""
    came = []
    with window:
        for name in "01":
            try:
                (os.rmdir if unmake else os.mkdir)(os.path.join(folder, name))
                came.append("")
            except FileExistsError:
                came.append("FileExistsError")
            except OSError as error:
                came.append("EDQUOT" if error.errno == 122 else str(error))
    return came
