# SPDX-License-Identifier: Apache-2.0
"""The replacements: each function of `os` that acts on files, and `open`, as an `Operation`."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import tempfile
from typing import IO, TYPE_CHECKING, Any, Final, final

from .interposer import Observer, descriptors, dispatch, locate, named_descriptor, watching
from .operation import Operation
from .python_file import InterposedFile, close_quietly, flags_of, open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ON_PATH: Final = (
    "access", "chmod", "chown", "lchown", "listdir", "lstat", "mkdir", "readlink", "remove",
    "rmdir", "scandir", "stat", "truncate", "unlink", "utime",
)  # fmt: skip
_ON_TWO: Final = ("link", "rename", "replace")
_ON_FD: Final = (
    "close", "fchmod", "fchown", "fdatasync", "fstat", "fsync", "ftruncate", "posix_fallocate",
    "pread", "preadv", "pwrite", "pwritev", "read", "readv", "write", "writev",
)  # fmt: skip
_WITHOUT_MEANING: Final = (
    "mkfifo", "mknod", "removexattr", "setxattr", "splice",
)  # fmt: skip
_PLAIN: Final = {
    "remove": "unlink",
    "lchown": "chown",
    "readv": "read",
    "preadv": "pread",
    "writev": "write",
    "pwritev": "pwrite",
}
_WITH_MODE: Final = {"access", "chmod", "mkdir", "fchmod"}
_WITH_SIZE: Final = {"truncate", "ftruncate", "read", "pread"}

_open: Final = builtins.open
_os_open: Final = os.open
_dup: Final = os.dup
_dup2: Final = os.dup2
_lseek: Final = os.lseek


def _number(arguments: tuple[Any, ...], options: dict[str, Any], name: str) -> int:
    found = options.get(name, arguments[0] if arguments else 0)
    return found if isinstance(found, int) else 0


def _on_path(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    plain = _PLAIN.get(name, name)

    def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        where = locate("." if path is None else path, options.get("dir_fd"))
        observer = watching(where)
        if observer is None:
            return real(path, *arguments, **options)
        operation = Operation(plain, where, fd=path if isinstance(path, int) else -1)
        if name in _WITH_MODE:
            default = 0o777 if name == "mkdir" else 0
            given = bool(arguments) or "mode" in options
            operation.mode = _number(arguments, options, "mode") if given else default
        if name in _WITH_SIZE:
            operation.size = _number(arguments, options, "length")
        if name == "scandir":
            return dispatch(observer, operation, lambda: _Entries(real(path), where))
        return dispatch(observer, operation, lambda: real(path, *arguments, **options))

    return call


def _on_two(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(src: Any, dst: Any, *arguments: Any, **options: Any) -> Any:
        first = locate(src, options.get("src_dir_fd"))
        second = locate(dst, options.get("dst_dir_fd"))
        observer = watching(second, first)
        if observer is None:
            return real(src, dst, *arguments, **options)
        operation = Operation(name, first, target=second, fd=named_descriptor(src))
        return dispatch(observer, operation, lambda: real(src, dst, *arguments, **options))

    return call


def _symlink(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(src: Any, dst: Any, *arguments: Any, **options: Any) -> Any:
        where = locate(dst, options.get("dir_fd"))
        observer = watching(where)
        if observer is None:
            return real(src, dst, *arguments, **options)
        operation = Operation("symlink", where, target=os.fsdecode(src))
        return dispatch(observer, operation, lambda: real(src, dst, *arguments, **options))

    return call


def _on_fd(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    plain = _PLAIN.get(name, name)

    def call(fd: Any, *arguments: Any, **options: Any) -> Any:
        number = fd if isinstance(fd, int) else fd.fileno()
        where = descriptors.get(number, "")
        observer = watching(where) if where else None
        if observer is None:
            if name == "close":
                descriptors.pop(number, None)
            return real(fd, *arguments, **options)
        operation = Operation(plain, where, fd=number)
        if name in _WITH_MODE:
            operation.mode = _number(arguments, options, "mode")
        if name in _WITH_SIZE:
            operation.size = _number(arguments, options, "length")
        if name == "posix_fallocate":
            operation.size = sum(arguments)
        perform = _performance(name, real, operation, arguments, options)
        return dispatch(observer, operation, perform)

    return call


def _performance(
    name: str,
    real: Callable[..., Any],
    operation: Operation,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Callable[[], Any]:
    """How the operation on a descriptor is carried out."""
    number, rest = operation.fd, arguments[1:]
    if name in {"write", "pwrite"}:
        operation.data = bytes(arguments[0])
    elif name in {"writev", "pwritev"}:
        operation.data = b"".join(bytes(part) for part in arguments[0])
    if name in {"pwrite", "pwritev"}:
        operation.size = _number(rest, options, "offset")
    if name in {"pwrite", "pwritev"}:
        return lambda: real(
            number, [operation.data] if name == "pwritev" else operation.data, *rest, **options
        )
    if name in {"write", "writev"}:

        def perform_write() -> int:
            taken: int = real(number, [operation.data] if name == "writev" else operation.data)
            operation.size = _lseek(number, 0, os.SEEK_CUR) - taken
            return taken

        return perform_write

    def perform() -> Any:
        if name == "close":
            # Linux lets go of the descriptor even where close reports an error.
            descriptors.pop(number, None)
        found = real(number, *arguments, **options)
        if name in {"read", "pread"}:
            operation.data = found
        return found

    return perform


def _opening(
    path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
) -> int:  # as os.open
    where = locate(path, dir_fd)
    observer = watching(where)
    if observer is None:
        return _os_open(path, flags, mode, dir_fd=dir_fd)
    operation = Operation("open", where, flags=flags, mode=mode)

    def perform() -> int:
        operation.fd = _os_open(path, flags, mode, dir_fd=dir_fd)
        observer.adopt_fd(operation.fd, where)
        return operation.fd

    return dispatch(observer, operation, perform)


def _open_python(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> IO[Any]:
    where = locate(file)
    observer = watching(where)
    if observer is None:
        return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if not closefd and not isinstance(file, int):
        raise ValueError("Cannot use closefd=False with file name")

    def raw_of(raw_mode: str) -> InterposedFile:
        if isinstance(file, int):
            raw = InterposedFile(file, file, raw_mode, closefd=closefd)
        else:
            flags = flags_of(raw_mode)
            fd = _opening(file, flags, 0o666) if opener is None else opener(file, flags)
            if fd not in descriptors:
                observer.adopt_fd(fd, where)
            raw = _raw_or_close(fd, file, raw_mode)
        observer.adopt_file(raw)
        return raw

    return open_file(raw_of, mode, buffering, encoding, errors, newline)


def _raw_or_close(fd: int, file: Any, mode: str) -> InterposedFile:
    try:
        return InterposedFile(fd, file, mode, closefd=True)
    except BaseException:
        descriptors.pop(fd, None)
        close_quietly(fd)
        raise


def _duplicate(fd: int) -> int:
    copy = _dup(fd)
    _inherit(fd, copy)
    return copy


def _duplicate_to(fd: int, fd2: int, inheritable: bool = True) -> int:
    copy = _dup2(fd, fd2, inheritable)
    descriptors.pop(copy, None)
    _inherit(fd, copy)
    return copy


def _inherit(fd: int, copy: int) -> None:
    where = descriptors.get(fd, "")
    observer = watching(where) if where else None
    if observer is not None:
        observer.adopt_fd(copy, where)


def _send(real: Callable[..., int]) -> Callable[..., int]:
    """`os.sendfile` as the read and the write that it stands for."""

    def call(out_fd: int, in_fd: int, offset: int | None, count: int, **options: Any) -> int:
        if out_fd not in descriptors:
            return real(out_fd, in_fd, offset, count, **options)
        data = os.read(in_fd, count) if offset is None else os.pread(in_fd, count, offset)
        return os.write(out_fd, data) if data else 0

    return call


def _copy_range(real: Callable[..., int]) -> Callable[..., int]:
    """`os.copy_file_range` likewise."""

    def call(
        src: int,
        dst: int,
        count: int,
        offset_src: int | None = None,
        offset_dst: int | None = None,
    ) -> int:
        if dst not in descriptors:
            return real(src, dst, count, offset_src, offset_dst)
        data = os.read(src, count) if offset_src is None else os.pread(src, count, offset_src)
        if not data:
            return 0
        return os.write(dst, data) if offset_dst is None else os.pwrite(dst, data, offset_dst)

    return call


def _without_meaning(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        observer = watching(*(locate(argument) for argument in arguments[:2]))
        if observer is not None and observer.strict:
            observer.refuse(
                f"os.{name} acts below {observer.root} and has no meaning to the interposer; "
                "give it one in harness/operations/replacements.py"
            )
        return real(*arguments, **options)

    return call


@final
class _Entries:
    """What `os.scandir` returns."""

    def __init__(self, real: Any, folder: str) -> None:
        self._real = real
        self._folder = folder

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> _Entry:
        return _Entry(next(self._real), self._folder)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._real.close()


@final
class _Entry:
    """An `os.DirEntry` whose look at the file is an operation."""

    def __init__(self, real: Any, folder: str) -> None:
        self._real = real
        self._where = os.path.join(folder, os.fsdecode(real.name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __fspath__(self) -> Any:
        return self._real.path

    def __repr__(self) -> str:
        return repr(self._real)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        def perform() -> os.stat_result:
            found: os.stat_result = self._real.stat(follow_symlinks=follow_symlinks)
            return found

        observer: Observer | None = watching(self._where)
        if observer is None:
            return perform()
        name = "stat" if follow_symlinks else "lstat"
        return dispatch(observer, Operation(name, self._where), perform)


def _replacements() -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[..., Any]] = {
        "open": _opening,
        "dup": _duplicate,
        "dup2": _duplicate_to,
        "symlink": _symlink(os.symlink),
        "sendfile": _send(os.sendfile),
    }
    if hasattr(os, "copy_file_range"):
        made["copy_file_range"] = _copy_range(os.copy_file_range)
    for names, maker in (
        (_ON_PATH, _on_path),
        (_ON_TWO, _on_two),
        (_ON_FD, _on_fd),
        (_WITHOUT_MEANING, _without_meaning),
    ):
        for name in names:
            if hasattr(os, name):
                made[name] = maker(name, getattr(os, name))
    return made


_REAL: Final = {name: getattr(os, name) for name in _replacements()}
_OURS: Final = _replacements()
_SUPPORT: Final = ("supports_dir_fd", "supports_fd", "supports_follow_symlinks")


@contextlib.contextmanager
def exchange() -> Iterator[None]:
    """Put the replacements in place, and the real functions back at the end."""
    with contextlib.ExitStack() as back:
        for name, ours in _OURS.items():
            back.callback(setattr, os, name, getattr(os, name))
            setattr(os, name, ours)
        for support in _SUPPORT:
            known: set[Callable[..., Any]] = getattr(os, support)
            added = {_OURS[name] for name, real in _REAL.items() if real in known}
            known |= added
            back.callback(known.difference_update, added)
        for module in (builtins, io):
            back.callback(setattr, module, "open", module.open)
            vars(module)["open"] = _open_python
        _rebind_defaults(back)
        yield


def _rebind_defaults(back: contextlib.ExitStack) -> None:
    """`tempfile` binds `os.unlink` as a default argument, once and for all."""
    closer = getattr(tempfile, "_TemporaryFileCloser", None)
    for function in list(vars(closer).values()) if closer is not None else ():
        defaults = getattr(function, "__defaults__", None)
        if defaults and _REAL["unlink"] in defaults:
            back.callback(setattr, function, "__defaults__", defaults)
            function.__defaults__ = tuple(
                _OURS["unlink"] if value is _REAL["unlink"] else value for value in defaults
            )
