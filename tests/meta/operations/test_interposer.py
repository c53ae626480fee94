# SPDX-License-Identifier: Apache-2.0
"""The interposer sees every way to reach a file, changes nothing else, and takes itself away."""

from __future__ import annotations

import builtins
import gc
import io
import json
import mmap
import os
import posix
import shutil
import tempfile
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.operations.faults import recording
from startup_plan.harness.operations.interposer import UnknownOperationError, patched
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.operations.faults import Trace


def _fd_calls(root: Path) -> None:
    fd = os.open(root / "f", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"abc")
    os.pwrite(fd, b"d", 3)
    os.pread(fd, 2, 0)
    os.read(fd, 2)
    os.writev(fd, [b"e", b"f"])
    os.pwritev(fd, [b"g"], 7)
    os.fsync(fd)
    os.fdatasync(fd)
    os.ftruncate(fd, 1)
    os.fchmod(fd, 0o644)
    os.fstat(fd)
    copy = os.dup(fd)
    os.write(copy, b"h")
    os.close(copy)
    os.close(fd)


def _path_calls(root: Path) -> None:
    os.makedirs(root / "d" / "e")
    (root / "d" / "f").symlink_to("nowhere")
    os.readlink(root / "d" / "f")
    os.rename(root / "d" / "f", root / "d" / "g")
    os.lstat(root / "d" / "g")
    os.unlink(root / "d" / "g")
    os.close(os.open(root / "d" / "h", os.O_WRONLY | os.O_CREAT))
    os.link(root / "d" / "h", root / "d" / "i")
    os.replace(root / "d" / "i", root / "d" / "j")
    os.truncate(root / "d" / "j", 5)
    os.chmod(root / "d" / "j", 0o600)
    os.utime(root / "d" / "j")
    os.access(root / "d" / "j", os.R_OK)
    os.stat(root / "d" / "j")
    os.listdir(root / "d")
    os.remove(root / "d" / "h")
    os.rmdir(root / "d" / "e")


def _json_dump(root: Path) -> None:
    with open(root / "j", "w", encoding="utf-8") as stream:
        json.dump({"key": list(range(20))}, stream)
    with open(root / "j", encoding="utf-8") as stream:
        json.load(stream)


def _pathlib(root: Path) -> None:
    path = root / "p"
    path.write_text("abc")
    path.read_bytes()
    path.rename(root / "q")
    (root / "q").unlink()


def _mkstemp(root: Path) -> None:
    fd, name = tempfile.mkstemp(dir=root)
    with os.fdopen(fd, "w") as stream:
        stream.write("abc")
    os.replace(name, root / "t")


def _named_temporary_file(root: Path) -> None:
    with tempfile.NamedTemporaryFile("wb", dir=root) as stream:
        stream.write(b"abc")
        stream.flush()
        os.fsync(stream.fileno())


def _scandir(root: Path) -> None:
    with os.scandir(root) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)


def _dir_fd(root: Path) -> None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    os.close(fd)
    os.rename("f", "g", src_dir_fd=folder, dst_dir_fd=folder)
    os.unlink("g", dir_fd=folder)
    os.fsync(folder)
    os.close(folder)


def _move(root: Path) -> None:
    (root / "a").write_bytes(b"abc")
    shutil.move(root / "a", root / "b")


def _copy(root: Path) -> None:
    (root / "a").write_bytes(b"abc")
    shutil.copyfile(root / "a", root / "b")


SEEN: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "descriptors": (
        _fd_calls,
        """open write pwrite pread read write pwrite fsync fdatasync ftruncate fchmod fstat
        write close close""",
    ),
    "paths": (
        _path_calls,
        """stat stat mkdir mkdir symlink readlink rename lstat unlink open close link replace
        truncate chmod utime access stat listdir unlink rmdir""",
    ),
    "json": (_json_dump, "open write close open read read close"),
    "pathlib": (_pathlib, "open write close open read read close rename unlink"),
    "mkstemp": (_mkstemp, "open write close replace"),
    "NamedTemporaryFile": (_named_temporary_file, "open write fsync close unlink"),
    "scandir": (_scandir, "scandir lstat"),
    "dir_fd": (_dir_fd, "open open close rename unlink fsync close"),
    "move": (_move, "open write close rename"),
    "copy": (_copy, "open write close open open write close close"),
}


@pytest.mark.parametrize("way", SEEN)
def test_every_way_to_a_file_is_seen(tmp_path: Path, way: str) -> None:
    """What code does to files shows as the system calls that it makes, in their order."""
    act, expected = SEEN[way]
    root = tmp_path / "root"
    root.mkdir()
    (root / "there").touch()
    with recording(root) as trace:
        act(root)
    names = [operation.name for operation in trace.operations]
    if way in {"copy", "move"}:
        # Versions of shutil differ in how they look and read, not in what they change.
        names = [name for name in names if name not in {"stat", "lstat", "fstat", "read", "pread"}]

    assert names == expected.split()


def test_arguments_and_bytes_are_recorded(tmp_path: Path) -> None:
    """A trace holds what a model of the disk needs: paths, flags, modes, offsets, bytes."""
    with recording(tmp_path) as trace:
        fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        os.write(fd, b"abc")
        os.pwrite(fd, b"xy", 5)
        os.lseek(fd, 2, os.SEEK_SET)
        os.write(fd, b"z")
        os.ftruncate(fd, 6)
        os.close(fd)
        os.mkdir(tmp_path / "d", 0o750)
        os.rename(tmp_path / "f", tmp_path / "d" / "g")
    opened, write, pwrite, again, cut, closed, made, renamed = trace.operations

    assert (opened.path, opened.flags & os.O_EXCL, opened.mode) == (
        str(tmp_path / "f"),
        os.O_EXCL,
        0o640,
    )
    assert opened.is_exclusive
    assert opened.may_create
    assert opened.result == opened.fd == write.fd == closed.fd
    assert (write.data, write.result, write.size, again.size) == (b"abc", 3, 0, 2)
    assert (pwrite.data, pwrite.size, cut.size) == (b"xy", 5, 6)
    assert (made.mode, renamed.target) == (0o750, str(tmp_path / "d" / "g"))
    assert [operation.index for operation in trace.operations] == list(range(1, 9))


def test_an_error_of_the_system_is_recorded_and_raised(tmp_path: Path) -> None:
    """An operation that fails by itself fails as ever, and the trace says with what."""
    with recording(tmp_path) as trace, pytest.raises(FileNotFoundError) as caught:
        os.unlink(tmp_path / "absent")

    assert trace.operations[0].error is caught.value
    assert not trace.fired


def test_other_paths_are_left_alone(tmp_path: Path) -> None:
    """Beside the watched folder nothing is seen, whatever its name begins with."""
    (tmp_path / "root").mkdir()
    (tmp_path / "rooted").mkdir()
    with recording(tmp_path / "root") as trace:
        for _, (act, _) in sorted(SEEN.items()):
            act(Path(tempfile.mkdtemp(dir=tmp_path / "rooted")))
        inside, outside = os.pipe()
        os.write(outside, b"x")
        os.read(inside, 1)
        os.close(inside)
        os.close(outside)

    assert trace.operations == []


def test_other_threads_are_left_alone(tmp_path: Path) -> None:
    """What another thread does elsewhere meanwhile works, and is not seen."""
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    done: list[str] = []

    def work() -> None:
        for number in range(20):
            path = tmp_path / "elsewhere" / str(number)
            path.write_text("abc")
            done.append(path.read_text())

    with recording(tmp_path / "root") as trace:
        thread = threading.Thread(target=work)
        thread.start()
        for number in range(20):
            (tmp_path / "root" / str(number)).write_text("abc")
        thread.join()

    assert done == ["abc"] * 20
    assert [operation.name for operation in trace.operations] == ["open", "write", "close"] * 20


def test_paths_are_understood_however_they_are_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths, bytes, dots and a link to the folder lead to the same operation."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    with recording(tmp_path / "link") as trace:
        for path in ("f", os.fsencode(root / "f"), root / "." / "x" / ".." / "f", "./f"):
            with suppress(FileNotFoundError):
                os.unlink(path)

    assert [operation.path for operation in trace.operations] == [str(root / "f")] * 4


@pytest.mark.parametrize(
    "mode", ["w", "wb", "a", "ab", "x", "r", "rb", "r+", "rb+", "w+", "a+b", "wt", "q", "rw", "wbt"]
)
@pytest.mark.parametrize("buffering", [-1, 0, 1, 16])
def test_open_behaves_as_ever(tmp_path: Path, mode: str, buffering: int) -> None:
    """In each mode a watched file takes, gives and refuses what any file does."""
    outcomes = []
    for watched in (False, True):
        root = tmp_path / str(watched)
        root.mkdir()
        if "x" not in mode:
            (root / "f").write_bytes(b"one\ntwo\n")
        with recording(root if watched else tmp_path / "nothing"):
            outcomes.append(_use(root / "f", mode, buffering))

    assert outcomes[0] == outcomes[1]


def _use(path: Path, mode: str, buffering: int) -> list[object]:
    found: list[object] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _exercise(path, mode, buffering, found)
    found += [(warning.category, str(warning.message)) for warning in caught]
    return [*found, path.read_bytes() if path.exists() else None]


def _exercise(path: Path, mode: str, buffering: int, found: list[object]) -> None:
    try:
        with open(path, mode, buffering) as stream:
            found += [type(stream).__name__.replace("InterposedFile", "FileIO"), stream.mode]
            found += [stream.readable(), stream.writable(), stream.seekable(), stream.isatty()]
            for step in (
                lambda: stream.write(b"three" if "b" in mode else "three"),
                lambda: stream.seek(0),
                stream.read,
                stream.tell,
                lambda: stream.truncate(2),
                lambda: list(stream),
            ):
                try:
                    found.append(step())
                except (OSError, ValueError) as error:
                    found.append(type(error).__name__)
    except (OSError, ValueError) as error:
        found.append((type(error).__name__, str(error).split(":")[0]))


def test_a_folder_cannot_be_opened_as_a_file(tmp_path: Path) -> None:
    """As ever, `open` refuses a folder; its descriptor is closed once, and nobody else's is."""
    with recording(tmp_path) as trace, pytest.raises(IsADirectoryError):
        open(tmp_path)  # noqa: SIM115
    gone = trace.operations[0].fd
    reused = os.open(tmp_path, os.O_RDONLY)
    gc.collect()

    assert (reused, os.path.sameopenfile(reused, reused)) == (gone, True)
    os.close(reused)


def test_everything_is_put_back(tmp_path: Path) -> None:
    """When nothing is watched any more, every function is the one from before."""
    before = _functions()
    with suppress(KeyError), patched(tmp_path), recording(tmp_path):
        with recording(tmp_path):
            during = _functions()
        raise KeyError

    assert _functions() == before
    assert during != before


def _functions() -> list[object]:
    closer: Any = vars(tempfile).get("_TemporaryFileCloser")
    defaults = [getattr(value, "__defaults__", None) for value in vars(closer).values()]
    supports = [os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks]
    names = [getattr(os, name) for name in dir(os) if callable(getattr(os, name))]
    return [*names, builtins.open, io.open, *defaults, *(frozenset(s) for s in supports)]


UNSEEN: Final[dict[str, Callable[[Path], object]]] = {
    "mkfifo": lambda path: os.mkfifo(path / "fifo"),
    "setxattr": lambda path: os.setxattr(path / "there", "user.x", b"1"),
    "posix.rename": lambda path: posix.rename(path / "there", path / "x"),
    "posix.open": lambda path: posix.open(path / "there", os.O_WRONLY),
    "FileIO": lambda path: io.FileIO(path / "there", "w"),
    "posix.unlink": lambda path: posix.unlink(path / "there"),
}


@pytest.mark.parametrize("way", UNSEEN)
def test_a_change_that_cannot_be_followed_is_an_error(tmp_path: Path, way: str) -> None:
    """A change that goes past the interposer, or has no meaning to it, ends the recording."""
    (tmp_path / "there").touch()
    with pytest.raises(UnknownOperationError, match=r"replacements\.py"), recording(tmp_path):
        UNSEEN[way](tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_mapped_memory_is_an_error(tmp_path: Path) -> None:
    """Bytes that reach a file through memory are not seen, so mapping it is refused."""
    (tmp_path / "f").write_bytes(b"x" * 4096)
    with (
        pytest.raises(UnknownOperationError, match="mmap"),
        recording(tmp_path),
        open(tmp_path / "f", "r+b") as stream,
    ):
        mmap.mmap(stream.fileno(), 0)


@pytest.mark.parametrize(
    ("mode", "access"),
    [("rb", mmap.ACCESS_READ), ("rb", mmap.ACCESS_DEFAULT), ("r+b", mmap.ACCESS_COPY)],
)
def test_a_map_that_only_reads_changes_nothing(tmp_path: Path, mode: str, access: int) -> None:
    """A map of a file that is open for reading, or a copy of its bytes, is let pass."""
    (tmp_path / "f").write_bytes(b"x" * 4096)
    prot = {"prot": mmap.PROT_READ} if access == mmap.ACCESS_DEFAULT else {"access": access}
    with (
        recording(tmp_path),
        open(tmp_path / "f", mode) as stream,
        mmap.mmap(stream.fileno(), 0, **prot) as mapped,
    ):
        found = mapped[:]

    assert found == b"x" * 4096


def test_a_file_without_a_name_is_followed_to_its_name(tmp_path: Path) -> None:
    """O_TMPFILE makes nothing that a neighbour could find; the link is what gives it its name."""
    named = str(tmp_path / "named")
    with recording(tmp_path) as trace:
        fd = os.open(tmp_path, os.O_WRONLY | os.O_TMPFILE)
        os.link(f"/proc/self/fd/{fd}", named, src_dir_fd=fd)
        os.close(fd)

    opened, linked, _ = trace.operations
    assert (opened.is_unnamed, opened.is_exclusive, opened.new_name) == (True, True, "")
    assert (linked.name, linked.fd, linked.is_exclusive, linked.new_name) == (
        "link",
        opened.fd,
        True,
        named,
    )


def test_an_error_that_is_swallowed_comes_out_at_the_end(tmp_path: Path) -> None:
    """A subject that catches everything does not hide that it could not be followed."""
    trace: Trace = recording(tmp_path)
    with pytest.raises(UnknownOperationError, match="mkfifo"), trace, suppress(BaseException):
        os.mkfifo(tmp_path / "fifo")


def test_functions_bound_at_import_are_seen(tmp_path: Path) -> None:
    """A subject that did `from os import replace` is seen, though it was executed before."""
    source = tmp_path / "bound.py"
    source.write_text(BOUND)
    subject = load_subject(str(source))
    with World(subject, tmp_path) as world:
        subject.fresh()
        subject.fresh()
        root = os.path.dirname(world.cache_root)
        with patched(root, subject), recording(root) as trace:
            subject.fresh().maybe_save_startup_plan(os.path.join(root, "plan"), 1)

    assert [operation.name for operation in trace.operations] == ["open", "close", "replace"]


BOUND: Final = """
from os import replace as put, open as begin, close, O_CREAT, O_WRONLY
def maybe_save_startup_plan(path, value, put=put):
    close(begin(path + ".tmp", O_CREAT | O_WRONLY))
    put(path + ".tmp", path)
"""
