"""Read gzip files at any place, in bounded memory: the beginning by zlib, everything else through an index.

indexed_gzip keeps the state of the decoder at points a few MiB apart, as far as the file was read so far. Reading in
file order decodes every byte once. A read further back begins at the point before it, and a read ahead decodes what is
between. Sums of all members are checked when their end is passed for the first time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import isqrt
from threading import Lock
from typing import Any

from reblock.errors import CorruptError, DiskError, FormatError, ReblockError
from reblock.model.medium import Medium, ReadHandle
from reblock.model.roots import Roots
from reblock.storage.media.files import disk_errors
from reblock.storage.seekable import SeekableFile

GZIP_MAGIC = b"\x1f\x8b"
#: Bytes of the decoder's state at each point, about.
_POINT_BYTES = 33 << 10
#: The least bytes between two points; indexed_gzip decodes about as many at once when it makes one.
_LEAST_SPACING = 8 << 20
#: Stored bytes that are read at once.
_BUFFER_BYTES = 256 << 10
#: The most bytes that deflate makes of one.
_MOST_RATIO = 1032


def spacing_of(size: int) -> int:
    """Bytes between two points of the index of so many bytes: what the index and one distance take is least."""
    return max(_LEAST_SPACING, isqrt(size * _POINT_BYTES))


def index_bytes(size: int) -> int:
    """Memory that reading so many bytes through an index takes."""
    spacing = spacing_of(size)
    return (size // spacing + 2) * _POINT_BYTES + min(size, spacing) * 9 // 8 + 2 * _BUFFER_BYTES


def check_ratio(path: str, stored: int, size: int) -> None:
    """CorruptError if so few stored bytes cannot hold so many."""
    if size > _MOST_RATIO * stored:
        raise CorruptError(f"{path}: {stored:,} bytes of gzip cannot hold the {size:,} bytes that the header promises")


def read_beginning(medium: Medium, path: str, length: int, roots: Roots | None = None) -> tuple[bytes, bytes, int]:
    """The first decoded bytes of a gzip file, its first stored bytes, and its size; fewer if it ends before."""
    with disk_errors("read", path), medium.reader(path, roots=roots) as handle:
        stored, start = handle.size(), 0
        found, first, decoder = bytearray(), b"", zlib.decompressobj(31)
        buffer = bytearray(min(_BUFFER_BYTES, max(stored, 1)))
        while len(found) < length and start < stored:
            count = handle.read(memoryview(buffer), start)
            if not count:
                break
            first = first or bytes(buffer[:32])
            data = bytes(buffer[:count])
            start += count
            while data and len(found) < length:
                try:
                    found += decoder.decompress(data, length - len(found))
                except zlib.error as error:
                    if not found:
                        raise FormatError(f"{path}: not a gzip file: {error}") from None
                    raise CorruptError(f"{path}: the gzip stream is damaged near its beginning: {error}") from None
                if decoder.eof:
                    # Another member may follow.
                    data, decoder = decoder.unused_data, zlib.decompressobj(31)
                    if not data.startswith(GZIP_MAGIC):
                        return bytes(found), first, stored
                else:
                    data = decoder.unconsumed_tail
    return bytes(found), first, stored


class Inflated:
    """The decoded bytes of a gzip file; several threads may read, one at a time."""

    def __init__(self, medium: Medium, path: str, size: int, roots: Roots | None = None) -> None:
        """`size` decoded bytes are of interest."""
        self._path, self._size = path, size
        self._lock = Lock()
        with disk_errors("open", path):
            self._handle = medium.reader(path, roots=roots)
        import indexed_gzip

        self._stream: Any = indexed_gzip.IndexedGzipFile(
            fileobj=_Raw(self._handle),
            spacing=spacing_of(size),
            readbuf_size=_BUFFER_BYTES,
            buffer_size=_BUFFER_BYTES,
        )

    def read(self, view: memoryview, offset: int) -> None:
        """Fill a view from an offset; CorruptError if the file is damaged or ends before."""
        stop = offset + len(view)
        with self._lock, self._errors(stop):
            self._stream.seek(offset)
            done = 0
            while done < len(view):
                count = self._stream.readinto(view[done:])
                if not count:
                    break
                done += count
            if done == len(view) and stop >= self._size:
                # The sum of the last member is checked at its end.
                self._stream.read(1)
        if done < len(view):
            raise CorruptError(
                f"{self._path}: the gzip stream ends after {offset + done:,} bytes, {stop:,} are promised"
            )

    @contextmanager
    def _errors(self, stop: int) -> Iterator[None]:
        """Errors of indexed_gzip have no errno, unless the medium failed."""
        try:
            yield
        except ReblockError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno:
                raise DiskError.wrap(error, doing="read", path=self._path) from error
            raise CorruptError(
                f"{self._path}: the gzip stream is damaged before byte {stop:,} of its content"
            ) from None

    def close(self) -> None:
        """Let go of the file and the index."""
        with self._lock:
            self._stream.close()
            self._handle.close()


class _Raw(SeekableFile):
    """An object on a medium as a file of Python's, for indexed_gzip."""

    def __init__(self, handle: ReadHandle) -> None:
        super().__init__(handle.size())
        self._handle = handle

    def readinto(self, buffer: Any) -> int:
        count = self._handle.read(memoryview(buffer).cast("B"), self.position)
        self.position += count
        return count
