"""Disk: the one place where files are opened, read and written; errors leave it with path and errno.

Large transfers go past the kernel's page cache where the file system allows it (O_DIRECT): copying page by page
through the cache costs more than the device, and pushes out everything else that is in it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, Self

from reblock.engine.seen import Seen
from reblock.errors import ChangedError, DiskError
from reblock.model import Bytes, Flat
from reblock.model.roots import Roots

#: What direct transfers are aligned to: addresses, offsets and lengths.
PAGE_BYTES = 4096
#: Transfers from this size on go past the page cache.
DIRECT_BYTES = 64 << 10
_DIRECT: int = getattr(os, "O_DIRECT", 0)
#: Linux's flag for reads that leave nothing in the page cache: 6.14 and later, some file systems.
_DONTCACHE = 0x80 if sys.platform == "linux" else 0
#: How a system says that it does not know a flag.
_UNKNOWN = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Handle:
    """One visit to one object: an open file."""

    _forgets: ClassVar[int] = _DONTCACHE

    def __init__(self, path: str, descriptor: int, *, direct: bool = False) -> None:
        self.path = path
        self.direct = direct
        self._descriptor = descriptor

    def size(self) -> int:
        """Size of the file."""
        return os.fstat(self._descriptor).st_size

    def status(self) -> os.stat_result:
        """What the file looks like."""
        return os.fstat(self._descriptor)

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        """Fill a view from a byte offset; returns how many bytes there were. What is read `once` is not cached."""
        done = 0
        try:
            while done < len(view):
                count = self._read_some(view[done:], offset + done, once=once and not self.direct)
                done += count
                if not count or (self.direct and count % PAGE_BYTES):  # the end of the file
                    break
        except OSError as error:
            raise DiskError.wrap(error, doing="reading", path=self.path) from error
        return done

    def _read_some(self, view: memoryview, offset: int, *, once: bool) -> int:
        if once and Handle._forgets:
            try:
                return os.preadv(self._descriptor, [view], offset, Handle._forgets)
            except OSError as error:
                if error.errno not in _UNKNOWN:
                    raise
                Handle._forgets = 0
        return os.preadv(self._descriptor, [view], offset)

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """A run of bytes somewhere in a staging buffer that has two pages to spare, and how many there were."""
        if not self.direct:
            return staging[:size], self.read(staging[:size].data, offset, once=once)
        before = offset % PAGE_BYTES
        whole = round_up(before + size)
        got = self.read(staging[:whole].data, offset - before)
        return staging[before : before + size], min(max(got - before, 0), size)

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        """Write buffers one behind the other from a byte offset."""
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        try:
            while views:
                count = os.pwritev(self._descriptor, views[:64], offset)
                offset += count
                while views and count >= len(views[0]):
                    count -= len(views.pop(0))
                if count:
                    views[0] = views[0][count:]
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=self.path) from error

    def resize(self, size: int) -> None:
        """Make the file that long."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise DiskError.wrap(error, doing="resizing", path=self.path) from error

    def fileno(self) -> int:
        """The descriptor, which stays this handle's own."""
        return self._descriptor

    def detach(self) -> int:
        """Give the descriptor to another owner."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        """End the visit."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.close(descriptor)
            except OSError as error:
                raise DiskError.wrap(error, doing="closing", path=self.path) from error

    def __del__(self) -> None:
        # A failed run drops visits half way.
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Disk:
    """Opens files; tests replace it by one that records."""

    def __init__(self, roots: Roots | None = None, seen: Seen | None = None) -> None:
        """Files to read lie inside the roots, if there are any, and are as they were seen."""
        self._roots = roots
        self._seen = seen

    def reader(self, path: str, *, direct: bool = False, number: int | None = None) -> Handle:
        """Open a file for reading; FileNotFoundError where there is none. `direct` is a wish.

        With the number of the object that it holds, it must look as it did at the start, or be missing as it was.
        """
        try:
            handle = self._inside(path, direct=direct)
        except FileNotFoundError:
            if self._seen is not None and number is not None and not self._seen.knows(number, None):
                raise changed(path) from None
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="opening", path=path) from error
        if self._seen is not None and number is not None and not self._seen.knows(number, handle.status()):
            handle.close()
            raise changed(path)
        return handle

    def _inside(self, path: str, *, direct: bool) -> Handle:
        """Open a file, but none outside the roots."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not keep us
        if self._roots is None:
            return _open(path, flags, direct=direct)
        if self._roots.allows(path):
            try:
                return _open(path, flags | os.O_NOFOLLOW, direct=direct)
            except OSError as error:
                if error.errno != errno.ELOOP:  # a link, that is
                    raise
        return _open(self._roots.resolve(path), flags, direct=direct)

    def writer(self, path: str) -> Handle:
        """Open a file for writing; it and its folders are made where they do not exist."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            try:
                return _open(path, flags)
            except FileNotFoundError:
                _make_folder(path)
                return _open(path, flags)
        except OSError as error:
            raise DiskError.wrap(error, doing="creating", path=path) from error


def changed(path: str) -> ChangedError:
    """An error for a file that is not what it was at the start of the run, or not there any more."""
    if not os.path.exists(path):
        return ChangedError(f"{path} was there when the run began, and is not any more")
    return ChangedError(f"{path} is not what it was when the run began: somebody writes to it, or has replaced it")


def _make_folder(path: str) -> None:
    """Make the folder of a file."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise DiskError.wrap(error, doing="creating the folder of", path=path) from error


def _open(path: str, flags: int, *, direct: bool = False) -> Handle:
    """Open a file, past the page cache if that is wished for and can be."""
    if direct and _DIRECT:
        try:
            return Handle(path, os.open(path, flags | _DIRECT, 0o666), direct=True)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the file system's way to say no
                raise
    return Handle(path, os.open(path, flags, 0o666))


def round_up(size: int) -> int:
    """The next multiple of a page."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES
