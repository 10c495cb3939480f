"""Shadow: an HDF5 file whose bytes on disk are those of the last checkpoint, whenever its writer is killed.

HDF5 changes its index in place, so a file whose writer dies is often torn: it does not open, or worse, it does. Here
the library writes through a Python file object that keeps to one rule ::

    ├─ what the last checkpoint left ─┼─ what came since ─────────┤
    0                               base                      the end
      changes stay in memory            written at once: nothing
                                        on disk leads there yet

A checkpoint syncs the new part, writes the changed pages of the old part to a side file (the redo file) and syncs that,
and only then changes them in place. After a crash a whole redo file is carried out again; a torn one was never begun.
Chunks are new, so their bytes go straight to disk; what stays in memory are pages of the index.
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
from reblock.storage.media.files import disk_errors, sync

_PAGE = 4096
_MAGIC = b"reblock redo 1\n\0"
_HEAD = struct.Struct("<16sQQ")
_ENTRY = struct.Struct("<QI")
_SUM_BYTES = 16


class Shadow:
    """What h5py takes as a file.

    HDF5 loses the number of an error, and h5py breaks where one is raised inside its calls. So an OSError is kept in
    `error` and nothing is written after it; whoever called HDF5 asks for it (see `telling`).
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
        """Set the place of the next call."""
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        """Place of the next call."""
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Bytes from the current place on."""
        out = bytearray(max(self._size - self._place, 0) if size < 0 else size)
        return bytes(out[: self.readinto(memoryview(out))])

    def readinto(self, out: memoryview) -> int:
        """Fill a buffer from the current place on."""
        view, start = memoryview(out).cast("B"), self._place
        view[:] = bytes(len(view))
        self._guard(self._fetch, view, start)
        self._place += len(view)
        return len(view)

    def write(self, data: memoryview) -> int:
        """Write at the current place."""
        view, start = memoryview(data).cast("B"), self._place
        old = max(min(self._base - start, len(view)), 0)
        self._guard(self._keep, view[:old], start)
        self._guard(self._put, view[old:], start + old)
        self._place += len(view)
        self._size = max(self._size, self._place)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Make the file that long; on disk the part of the last checkpoint stays until the next."""
        self._size = self._place if size is None else size
        if self._size >= self._base:
            self._guard(os.ftruncate, self._descriptor, self._size)
        return self._size

    def flush(self) -> None:
        """Nothing: a checkpoint is asked for by name."""

    # ---------------------------------------------------------------- what the store calls
    @property
    def size(self) -> int:
        """Length of the file."""
        return self._size

    def overwrite(self, data: Bytes, offset: int) -> None:
        """Write bytes in place that no checkpoint has promised, such as those of a chunk that is done again."""
        self._put(memoryview(data).cast("B"), offset)

    def checkpoint(self) -> None:
        """Make the file on disk what HDF5 has said it is; HDF5 has been flushed before."""
        with disk_errors("write", self.path):
            if self.error is not None:
                raise self.error
            os.fsync(self._descriptor)
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
        """Leave the file as the last checkpoint made it."""
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
        """Change bytes of the last checkpoint, in memory."""
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
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if not self._named:
            sync(os.path.dirname(path) or ".")
            self._named = True


@contextmanager
def telling(shadow: Callable[[], Shadow | None]) -> Iterator[None]:
    """Calls of HDF5: what the system has said comes before what HDF5 has made of it, if anything."""
    try:
        yield
    finally:
        found = shadow()
        if found is not None and found.error is not None:
            raise found.error from None


def open_shadow(shadow: Shadow) -> Any:
    """An `h5py.File` on a shadow; new ones can be read by every HDF5 since 1.8, as in `hdf5_file.open_file`."""
    return library().File(shadow, "r+" if shadow.found else "w", libver=("v108", "v110"), rdcc_nbytes=1 << 20)


def recover(path: str) -> None:
    """Carry out what a checkpoint had decided and may not have finished; nothing where there is no such thing."""
    redo = _redo(path)
    with disk_errors("read", redo):
        try:
            with open(redo, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
    body, seal = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
    if len(body) < _HEAD.size or hashlib.blake2b(body, digest_size=_SUM_BYTES).digest() != seal:
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


def forget(path: str) -> None:
    """Remove the redo file of a file that is complete, or given up."""
    with disk_errors("remove", path), suppress(FileNotFoundError):
        os.unlink(_redo(path))


def _carry_out(descriptor: int, pages: list[tuple[int, bytes]], size: int) -> None:
    for offset, data in pages:
        _write_at(descriptor, memoryview(data), offset)
    os.ftruncate(descriptor, size)
    os.fsync(descriptor)


def _write_at(descriptor: int, view: memoryview, offset: int) -> None:
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _redo(path: str) -> str:
    return path + ".redo"
