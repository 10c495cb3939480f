"""A TIFF file that is being written: elements first, directories last.

::

    ├ header, no page yet ┼ raw strips or tiles, each at its place ──────────────────┼ directories (commit) ┤
    ├ header, no page yet ┼ mark, segment ┼ mark, segment ┼ … as they come ──────────┼ directories (commit) ┤

Encoded segments are placed as they come, each behind a mark with its number and length. A run that was killed finds
what it had written by these marks; readers of TIFF go by the directories and never see them. The header refers to the
directories only when everything before is durable.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, UsageError
from reblock.model.layout import Layout, most_stored_bytes
from reblock.model.medium import Medium, WriteHandle
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Read, Scratch, TransferMode, fresh
from reblock.storage.by_extent import ByExtent
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.registry import decoder
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_head
from reblock.storage.tiff.description import describe
from reblock.storage.tiff.directory import description_tag, directories, header, kind_of
from reblock.storage.tiff.geometry import TiffPages
from reblock.storage.tiff.handle import Kind
from reblock.storage.tiff.store import encoding_of, full_codec
from reblock.storage.tiff.tags import split_attributes

#: Elements begin here.
START = 16
#: The mark before an encoded segment: four letters, a checksum of the rest, number and length.
_MARK = struct.Struct("<4sIQQ")
_LETTERS = b"rbSG"
#: Directories are written in pieces of about this size.
_PIECE_BYTES = 1 << 22


@dataclass(frozen=True, eq=False)
class NewTiffStore(ByExtent):
    """A file that is being written."""

    path: str
    """The file."""
    schema: Schema
    """Its schema."""
    ome: bool = False
    """Whether it will be OME-TIFF."""
    medium: Medium = LOCAL
    """The medium of the file."""
    roots: Roots | None = None
    """Nowhere else: the file is new."""
    _open: dict[str, Any] = field(default_factory=dict, repr=False)
    """The handle of the file, the places of encoded segments and their end; empty until the first is written."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": {}}

    @property
    def format(self) -> str:
        return "ometiff" if self.ome else "tiff"

    @property
    def location(self) -> str:
        return self.path

    @cached_property
    def pages(self) -> TiffPages:
        """Its pages."""
        return TiffPages(self.schema)

    @property
    def layout(self) -> Layout:
        return self.pages.layout

    @cached_property
    def kind(self) -> Kind:
        """TIFF or BigTIFF, and the byte order."""
        size = (
            self._raw_bytes
            if not self.schema.codec
            else self.pages.grid.count * most_stored_bytes(2 * self._unit_bytes)
        )
        return kind_of(self.schema, size)

    @property
    def _unit_bytes(self) -> int:
        return self.layout.unit_bytes

    @property
    def _raw_bytes(self) -> int:
        """Bytes of all raw segments."""
        if self.pages.tiled:
            return self.pages.grid.count * self._unit_bytes
        return self.layout.nbytes

    @property
    def writes(self) -> TransferMode:
        return TransferMode.UNIT if self.schema.codec else TransferMode.EXTENT

    @property
    def fills(self) -> bool:
        """Segments that were not written are not stored."""
        return True

    @cached_property
    def _chain(self) -> Chain:
        return Chain(full_codec(self.schema.codec, self.schema.dtype, self.pages.row), self.schema.dtype)

    @property
    def encoding(self) -> str:
        return encoding_of(self._chain) if self.schema.codec else ""

    @property
    def decoder(self) -> Decoder | None:
        return decoder(self._chain.codec) if self.schema.codec else None

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    # ---------------------------------------------------------------- where bytes lie
    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - the places are known
        if not self.schema.codec:
            return [self.place(index) for _ in units]
        offsets, counts = self._places
        numbers = [self.pages.grid.number(unit) for unit in units]
        return [Extent(self.path, int(offsets[n]), int(counts[n])) if offsets[n] else None for n in numbers]

    def place(self, index: Index) -> Extent:
        layout = self.layout
        if self.schema.codec:
            return Extent(self.path)
        size = layout.objects.stored(index).size * layout.itemsize
        return Extent(self.path, START + layout.objects.number(index) * self._unit_bytes, size)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - objects share one file
        return b""

    # ---------------------------------------------------------------- what bytes mean
    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        try:
            self._chain.decode(data, out, scratch)
        except CorruptError as error:
            raise CorruptError(f"{self.path}: {error} ({extent.length} bytes at {extent.offset})") from None

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        return self._chain.encode(data, room, scratch)

    # ---------------------------------------------------------------- encoded segments
    @property
    def _places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Offsets and stored bytes of encoded segments; 0 for those that are not written."""
        if "places" not in self._open:
            self._open["places"] = tuple(np.zeros(self.pages.grid.count, np.int64) for _ in range(2))
            self._open["end"] = START
        offsets, counts = self._open["places"]
        return offsets, counts

    def _handle(self) -> WriteHandle:
        if "handle" not in self._open:
            self._open["handle"] = self.medium.writer(self.path)
        handle: WriteHandle = self._open["handle"]
        return handle

    def write_unit(self, index: Index, data: Bytes) -> None:
        """Append a segment behind its mark."""
        (offsets, counts), view = self._places, memoryview(data).cast("B")
        number, end = self.pages.grid.number(index), int(self._open["end"])
        with disk_errors("write", self.path):
            self._handle().write([_mark(number, len(view)), view], end)
        offsets[number], counts[number] = end + _MARK.size, len(view)
        self._open["end"] = _next(end, len(view))

    def find_segments(self) -> None:
        """Find the segments of an earlier attempt by their marks; what comes after the last whole one is cut off."""
        offsets, counts = self._places
        end = START
        with disk_errors("read", self.path), self.medium.reader(self.path) as file:
            size, head = file.size(), bytearray(_MARK.size)
            while end + _MARK.size <= size and file.read(memoryview(head), end) == _MARK.size:
                letters, checksum, number, length = _MARK.unpack(head)
                known = letters == _LETTERS and checksum == zlib.crc32(head[8:]) and number < len(offsets)
                if not known or end + _MARK.size + length > size:
                    break
                offsets[number], counts[number] = end + _MARK.size, length
                end = _next(end, length)
        self._open["end"] = end
        with disk_errors("write", self.path):
            self._handle().resize(end)

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        self.medium.sync(self.path)

    def commit(self, record: Record = NO_RECORD) -> None:
        """Write the directories behind all segments, and then refer to them."""
        if self.schema.codec:
            offsets, counts = self._places
            end = int(self._open["end"])
        else:
            offsets, counts = self._raw_places()
            end = START + self._raw_bytes
        first = -(-end // 16) * 16
        tags, rest = split_attributes(self.schema.attributes)
        tags.append(description_tag(describe(self.schema, rest, record, self.pages.samples, ome=self.ome)))
        made = directories(self.schema, self.kind, first, offsets, counts, tags)
        self.medium.sync(self.path)
        with disk_errors("write", self.path), self.medium.writer(self.path) as handle:
            place, waiting = first, bytearray()
            for one in made:
                waiting += one
                if len(waiting) >= _PIECE_BYTES:
                    handle.write([waiting], place)
                    place, waiting = place + len(waiting), bytearray()
            handle.write([waiting], place)
            handle.resize(place + len(waiting))
            self.medium.sync(self.path)
            handle.write([header(self.kind, first)], 0)
        self.abort()
        self.medium.sync(self.path)
        self.medium.sync_name(self.path)

    def _raw_places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Offsets and bytes of raw strips or tiles."""
        pages, count = self.pages, self.pages.grid.count
        if pages.tiled:
            counts = np.full(count, self._unit_bytes, np.int64)
            return START + np.arange(count, dtype=np.int64) * self._unit_bytes, counts
        (height, width), (rows, _) = pages.size, pages.segment
        lengths = np.minimum(rows, height - np.arange(0, height, rows, dtype=np.int64))
        counts = np.tile(lengths * (width * pages.samples * self.schema.dtype.itemsize), pages.count)
        return START + np.cumsum(counts) - counts, counts

    def abort(self) -> None:
        """Close the file."""
        handle = self._open.pop("handle", None)
        if handle is not None:
            handle.close()


def _mark(number: int, length: int) -> bytes:
    rest = struct.pack("<QQ", number, length)
    return _LETTERS + struct.pack("<I", zlib.crc32(rest)) + rest


def _next(end: int, length: int) -> int:
    """Where the next mark goes: at a multiple of 8 bytes."""
    return end + _MARK.size + -(-length // 8) * 8


def create(path: str, schema: Schema, medium: Medium, *, ome: bool) -> NewTiffStore:
    """Make a new file, with all room for raw segments."""
    if not medium.writes_ranges:
        raise UsageError(f"{path}: TIFF is written in pieces, which is not possible in {medium.name}")
    store = NewTiffStore(path, schema, ome, medium)
    size = START if schema.codec else START + store._raw_bytes  # noqa: SLF001 - its own constructor
    with disk_errors("create", path):
        medium.create(path, header(store.kind).ljust(START, b"\0"), size=size)
    return store


def reopen(path: str, schema: Schema, medium: Medium, *, ome: bool) -> NewTiffStore:
    """Continue a file."""
    store = NewTiffStore(path, schema, ome, medium)
    expected = header(store.kind).ljust(START, b"\0")
    head, size = read_head(medium, path, START)
    if head != expected:
        raise CorruptError(f"{path}: not the beginning of the array that was being written")
    if schema.codec:
        store.find_segments()
    elif size < START + store._raw_bytes:  # noqa: SLF001 - its own constructor
        raise CorruptError(f"{path}: {size:,} bytes, the array that was being written has more")
    return store
