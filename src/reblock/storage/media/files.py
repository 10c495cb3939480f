"""Local files: open them without following links, make them durable, and turn every OSError into a DiskError."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from reblock.errors import DiskError, FormatError
from reblock.model.medium import FILE, FOLDER, LINK
from reblock.model.store import Bytes

#: macOS' request for more than fsync does there: to write out the device's cache.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
#: What file modes mean, in words.
KINDS = {
    stat.S_IFDIR: FOLDER,
    stat.S_IFREG: FILE,
    stat.S_IFLNK: LINK,
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def disk_errors(doing: str, path: str) -> Iterator[None]:
    """Turn every OSError inside into a DiskError that names the operation and the path."""
    try:
        yield
    except OSError as error:
        raise DiskError.wrap(error, doing=doing, path=path) from error
    except ValueError as error:  # a path with a NUL character
        raise DiskError.wrap(OSError(errno.EINVAL, str(error)), doing=doing, path=repr(path)) from error


def open_regular(path: str, flags: int, *, at: int | None = None) -> int:
    """Open a regular file: links are not followed, and pipes are not waited for. Raises plain OSErrors.

    With `at`, the handle of a folder, only the last name of the path counts.
    """
    name = path if at is None else os.path.basename(path)
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            raise FormatError(f"{path}: expected a regular file, not {kind_of(mode)}") from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise FormatError(f"{path}: expected a regular file, not {kind_of(mode)}")
    return fd


def write_file(path: str, data: Bytes, *, length: int | None = None, at: int | None = None) -> None:
    """Make a new, durable file of `length` bytes, if that is given; a failure leaves nothing.

    With `at`, the handle of a folder, only the last name of the path counts.
    """
    with disk_errors("create", path):
        name = path if at is None else os.path.basename(path)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=at)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if length is not None:
                os.ftruncate(fd, length)
            flush(fd)
        except OSError:
            os.unlink(name, dir_fd=at)
            raise
        finally:
            os.close(fd)


def flush(descriptor: int) -> None:
    """Make an open file, or the names of an open folder, durable."""
    if _FULL_SYNC is not None:
        # Where a file system does not have it, what fsync can do is all there is.
        with suppress(OSError):
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    os.fsync(descriptor)


def flush_data(descriptor: int) -> None:
    """Make the bytes and the size of an open file durable; its times may not be."""
    if _FULL_SYNC is None and hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        flush(descriptor)


def sync(path: str) -> None:
    """Make a file's bytes, or a folder's names, durable."""
    with disk_errors("sync", path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            flush(fd)
        finally:
            os.close(fd)


def kind_of(mode: int) -> str:
    """The kind of a file, in words."""
    return KINDS.get(stat.S_IFMT(mode), "something else")


def is_number_below(name: str, count: int) -> bool:
    """Whether a name is a number below another, in canonical form."""
    return name.isascii() and name.isdecimal() and (name[0] != "0" or name == "0") and int(name[:20]) < count
