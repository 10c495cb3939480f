"""A TIFF file of any medium as a Python file object, and a walk along its directories before a library trusts them."""

from __future__ import annotations

import io
import logging
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from reblock.errors import FormatError
from reblock.model.medium import FILE, Medium, ReadHandle
from reblock.model.roots import Roots
from reblock.storage.media.blocks import library_reader
from reblock.storage.media.files import disk_errors

#: First bytes of TIFF and BigTIFF in both byte orders.
MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
#: The most directories (pages), and the most tags of one.
MAX_PAGES, MAX_TAGS = 1 << 24, 4096
#: The most bytes of a file's directories that are kept to be compared with those of other files.
MAX_SEEN_BYTES = 1 << 16
#: Bytes that are read ahead: a directory with its small values.
_AHEAD_BYTES = 1 << 12


class MediumFile:
    """Reads an object of a medium; no read asks for more than there is, whatever a tag says."""

    def __init__(self, handle: ReadHandle) -> None:
        self._handle, self._size = handle, handle.size()
        self._position, self._start = 0, 0
        self._buffer = b""
        self._seen: dict[int, bytes] = {}
        self._seen_bytes = 0

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self._size

    def seekable(self) -> bool:
        """As for files."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end."""
        found = self._bytes_at(self._position, size)
        if self._seen_bytes <= MAX_SEEN_BYTES and len(found) > len(self._seen.get(self._position, b"")):
            self._seen_bytes += len(found)
            self._seen[self._position] = found
        self._position += len(found)
        return found

    @property
    def seen(self) -> Mapping[int, bytes] | None:
        """All bytes that were read, by offset; None if they are too many to be kept."""
        return self._seen if self._seen_bytes <= MAX_SEEN_BYTES else None

    def holds(self, seen: Mapping[int, bytes]) -> bool:
        """Whether it has these bytes at these offsets."""
        return all(self._bytes_at(offset, len(data)) == data for offset, data in seen.items())

    def _bytes_at(self, offset: int, size: int) -> bytes:
        left = max(self._size - offset, 0)
        count = left if size < 0 else min(size, left)
        begin = offset - self._start
        if not 0 <= begin <= begin + count <= len(self._buffer):
            self._start, begin = offset, 0
            self._buffer = self._fetch(offset, min(max(count, _AHEAD_BYTES), left))
        return self._buffer[begin : begin + count]

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill a buffer with the next bytes."""
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def _fetch(self, offset: int, size: int) -> bytes:
        data = bytearray(size)
        return bytes(data[: self._handle.read(memoryview(data), offset)])

    def close(self) -> None:
        """The medium closes the object."""


@contextmanager
def opened(medium: Medium, path: str, roots: Roots | None) -> Iterator[MediumFile]:
    """A file of a medium; FormatError if it is not a regular one."""
    with disk_errors("read", path), library_reader(medium, path, roots) as handle:
        kind = handle.status().kind
        if kind != FILE:
            raise FormatError(f"{path}: expected a regular file, not {kind}")
        yield MediumFile(handle)


@dataclass(frozen=True)
class Kind:
    """How numbers of a file are written."""

    order: str
    """`<` or `>`."""
    big: bool
    """Whether it is BigTIFF."""

    @property
    def offset(self) -> str:
        """The struct format of an offset."""
        return f"{self.order}{'Q' if self.big else 'I'}"

    @property
    def count(self) -> str:
        """The struct format of the number of tags."""
        return f"{self.order}{'Q' if self.big else 'H'}"

    @property
    def tag_bytes(self) -> int:
        """Bytes of a tag in a directory."""
        return 20 if self.big else 12


def check_directories(file: MediumFile, path: str) -> int:
    """The number of directories; FormatError if they are not a chain that ends inside the file."""
    kind, offset = _header(file, path)
    seen: set[int] = set()
    while offset:
        if offset in seen:
            raise FormatError(f"{path}: page {len(seen):,} leads back to the directory at byte {offset:,}: a loop")
        if len(seen) >= MAX_PAGES:
            raise FormatError(f"{path}: more than {MAX_PAGES:,} pages, which is the limit")
        seen.add(offset)
        where = f"{path}: the directory of page {len(seen) - 1:,} at byte {offset:,}"
        tags = _number(file, kind.count, offset, where)
        if not 0 < tags <= MAX_TAGS:
            raise FormatError(f"{where} has {tags:,} tags, from 1 to {MAX_TAGS:,} are possible")
        offset = _number(file, kind.offset, offset + struct.calcsize(kind.count) + tags * kind.tag_bytes, where)
    if not seen:
        raise FormatError(f"{path}: a TIFF file without any page")
    return len(seen)


def _header(file: MediumFile, path: str) -> tuple[Kind, int]:
    """How numbers are written, and where the first directory is."""
    file.seek(0)
    head = file.read(16)
    if head[:4] not in MAGIC:
        raise FormatError(f"{path}: not a TIFF file, it begins with {head[:4]!r}")
    kind = Kind("<" if head[:2] == b"II" else ">", big=b"+" in head[2:4])
    if kind.big and struct.unpack(f"{kind.order}HH", head[4:8].ljust(4, b"\0")) != (8, 0):
        raise FormatError(f"{path}: BigTIFF with offsets of other than 8 bytes")
    return kind, _number(file, kind.offset, 8 if kind.big else 4, f"{path}: the header")


def _number(file: MediumFile, code: str, offset: int, where: str) -> int:
    file.seek(offset)
    data = file.read(struct.calcsize(code))
    if len(data) < struct.calcsize(code):
        raise FormatError(f"{where} is cut off: the file has {file.size:,} bytes")
    return int(struct.unpack(code, data)[0])


def silence() -> None:
    """Keep messages of tifffile off the terminal; programs that set up logging still get them."""
    log = logging.getLogger("tifffile")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
