"""Crash-safe HDF5 files: the bytes on disk are those of the last checkpoint, whenever the writer is killed.

HDF5 changes its index in place, so a file whose writer dies is often damaged: it does not open, or worse, it does.
Here the library writes through a Python file object with one rule ::

    ├─ what the last checkpoint left ─┼─ what came since ─────────┤
    0                               base                      the end
      changes stay in memory            written at once: nothing
                                        on disk refers to it yet

A checkpoint syncs the new part, writes the changed pages of the old part to a side file (the redo file), syncs that,
and only then changes the pages in place. After a crash, a complete redo file is applied again; an incomplete one was
never applied. Chunks are new, so their bytes go straight to disk; only pages of the index stay in memory.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from reblock.model.store import Bytes
from reblock.storage.hdf5.file import library
from reblock.storage.media.files import disk_errors, flush, sync

_PAGE = 4096
_MAGIC = b"reblock redo 1\n\0"
_HEAD = struct.Struct("<16sQQ")
_ENTRY = struct.Struct("<QI")
_SUM_BYTES = 16


class CheckpointFile:
    """A file object for h5py.

    HDF5 drops the errno of an error, and h5py breaks if an exception is raised inside its calls. So an OSError is kept
    in `error`, nothing is written after it, and the caller of HDF5 raises it (see `raise_disk_errors`).
    """

    def __init__(self, path: str, *, new: bool) -> None:
        self.path = path
        self.found = not new
        self.error: OSError | None = None
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if new else 0)
        if not new:
            recover(path)
        with disk_errors("create" if new else "open", path):
            self._descriptor = os.open(path, flags, 0o666)
            self._base = self._size = os.fstat(self._descriptor).st_size
        self._pages: dict[int, bytearray] = {}
        self._place = 0
        self._named = False

    # ---------------------------------------------------------------- what h5py calls
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next call."""
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        """The position of the next call."""
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Bytes from the current position on."""
        out = bytearray(max(self._size - self._place, 0) if size < 0 else size)
        return bytes(out[: self.readinto(memoryview(out))])

    def readinto(self, out: memoryview) -> int:
        """Fill a buffer from the current position on."""
        view, start = memoryview(out).cast("B"), self._place
        view[:] = bytes(len(view))
        self._guard(self._fetch, view, start)
        self._place += len(view)
        return len(view)

    def write(self, data: memoryview) -> int:
        """Write at the current position."""
        view, start = memoryview(data).cast("B"), self._place
        old = max(min(self._base - start, len(view)), 0)
        self._guard(self._keep, view[:old], start)
        self._guard(self._put, view[old:], start + old)
        self._place += len(view)
        self._size = max(self._size, self._place)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file; on disk the last checkpoint's part stays until the next checkpoint."""
        self._size = self._place if size is None else size
        if self._size >= self._base:
            self._guard(os.ftruncate, self._descriptor, self._size)
        return self._size

    def flush(self) -> None:
        """Do nothing; `checkpoint` flushes."""

    # ---------------------------------------------------------------- what the store calls
    @property
    def size(self) -> int:
        """Length of the file."""
        return self._size

    def overwrite(self, data: Bytes, offset: int) -> None:
        """Write bytes in place that no checkpoint covers, such as those of a repeated chunk."""
        self._put(memoryview(data).cast("B"), offset)

    def checkpoint(self) -> None:
        """Bring the file on disk to HDF5's current state; HDF5 must be flushed before."""
        with disk_errors("write", self.path):
            if self.error is not None:
                raise self.error
            flush(self._descriptor)
        if self._pages or self._size < self._base:
            pages = [
                (number * _PAGE, bytes(data[: max(self._base - number * _PAGE, 0)]))
                for number, data in sorted(self._pages.items())
            ]
            self._write_redo(pages)
            with disk_errors("write", self.path):
                _carry_out(self._descriptor, pages, self._size)
        self._pages.clear()
        self._base = self._size

    def close(self) -> None:
        """Close; the file stays as the last checkpoint left it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    # ---------------------------------------------------------------- pages
    def _fetch(self, view: memoryview, start: int) -> None:
        done = 0
        while done < len(view):
            count = os.preadv(self._descriptor, [view[done:]], start + done)
            if not count:
                view[done:] = bytes(len(view) - done)
                break
            done += count
        for number in range(start // _PAGE, -(-min(start + len(view), self._base) // _PAGE)) if self._pages else ():
            page = self._pages.get(number)
            if page is not None:
                first = max(number * _PAGE, start)
                stop = min((number + 1) * _PAGE, start + len(view), self._base)
                view[first - start : stop - start] = page[first - number * _PAGE : stop - number * _PAGE]

    def _keep(self, view: memoryview, start: int) -> None:
        """Change bytes of the last checkpoint in memory."""
        done = 0
        while done < len(view):
            number, inside = divmod(start + done, _PAGE)
            if number not in self._pages:
                page = bytearray(_PAGE)
                self._fetch(memoryview(page), number * _PAGE)
                self._pages[number] = page
            count = min(_PAGE - inside, len(view) - done)
            self._pages[number][inside : inside + count] = view[done : done + count]
            done += count

    def _put(self, view: memoryview, start: int) -> None:
        _write_at(self._descriptor, view, start)

    def _guard(self, call: Callable[..., object], *arguments: object) -> None:
        if self.error is None:
            try:
                call(*arguments)
            except OSError as error:
                self.error = error

    def _write_redo(self, pages: list[tuple[int, bytes]]) -> None:
        parts = [_HEAD.pack(_MAGIC, self._size, len(pages))]
        for offset, data in pages:
            parts += [_ENTRY.pack(offset, len(data)), data]
        body = b"".join(parts)
        path = _redo(self.path)
        with disk_errors("write", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                view = memoryview(body + hashlib.blake2b(body, digest_size=_SUM_BYTES).digest())
                while view:
                    view = view[os.write(descriptor, view) :]
                flush(descriptor)
            finally:
                os.close(descriptor)
        if not self._named:
            sync(os.path.dirname(path) or ".")
            self._named = True


@contextmanager
def raise_disk_errors(checkpoint_file: Callable[[], CheckpointFile | None]) -> Iterator[None]:
    """Around calls of HDF5: raise the file's own error instead of HDF5's."""
    try:
        yield
    finally:
        found = checkpoint_file()
        if found is not None and found.error is not None:
            raise found.error from None


def open_checkpoint_file(checkpoint_file: CheckpointFile, *, track_order: bool | None = None) -> Any:
    """An `h5py.File` on a checkpoint file; every HDF5 since 1.8 can read new ones, as with `file.open_file`."""
    mode = "r+" if checkpoint_file.found else "w"
    return library().File(checkpoint_file, mode, libver=("v108", "v110"), rdcc_nbytes=1 << 20, track_order=track_order)


def recover(path: str) -> None:
    """Apply a complete redo file, whose checkpoint may not have finished; do nothing if there is none."""
    redo = _redo(path)
    with disk_errors("read", redo):
        try:
            with open(redo, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
    body, checksum = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
    if len(body) < _HEAD.size or hashlib.blake2b(body, digest_size=_SUM_BYTES).digest() != checksum:
        return
    _, size, count = _HEAD.unpack_from(body)
    pages, at = [], _HEAD.size
    for _ in range(count):
        offset, length = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        pages.append((offset, body[at : at + length]))
        at += length
    with disk_errors("write", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _carry_out(descriptor, pages, size)
        finally:
            os.close(descriptor)


def remove_redo(path: str) -> None:
    """Remove the redo file of a file that is complete or discarded."""
    with disk_errors("remove", path), suppress(FileNotFoundError):
        os.unlink(_redo(path))


def _carry_out(descriptor: int, pages: list[tuple[int, bytes]], size: int) -> None:
    for offset, data in pages:
        _write_at(descriptor, memoryview(data), offset)
    os.ftruncate(descriptor, size)
    flush(descriptor)


def _write_at(descriptor: int, view: memoryview, offset: int) -> None:
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _redo(path: str) -> str:
    return path + ".redo"
