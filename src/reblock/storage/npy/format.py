"""The npy format: one contiguous array in one file, in C or Fortran order.

::

    ├─ header (128 bytes or so) ─┼─ elements ─────────────────────────┤
    0                          offset                          offset + nbytes
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from reblock.errors import CorruptError, UsageError
from reblock.geometry import Grid
from reblock.geometry.grid import chunk_text
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, ChunkLimits, Extent, Format, Index, Read, Store
from reblock.storage.by_extent import RawByExtent
from reblock.storage.checks import dtype_problem
from reblock.storage.library import LibraryArray
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import is_file, read_head
from reblock.storage.npy.library import open_with_numpy
from reblock.storage.npy_header import MAGIC, adapt_order, header_of, read_header
from reblock.storage.unencoded import refuse_encoding


@dataclass(frozen=True)
class NpyStore(RawByExtent):
    """One .npy file."""

    path: str
    """The file."""
    schema: Schema
    """Its schema."""
    offset: int
    """Bytes before the first element."""
    roots: Roots | None = None
    """The real file; None for a new one."""
    medium: Medium = LOCAL
    """The medium of the file."""

    @property
    def format(self) -> str:
        return "npy"

    @cached_property
    def layout(self) -> Layout:
        return _layout(self.schema)

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - the file is all there is
        return [self.place(index) for _ in units]

    def place(self, index: Index) -> Extent:  # noqa: ARG002 - there is only one object
        return Extent(self.path, self.offset, self.layout.nbytes)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - there is only one object
        # `create` has written it; a writer that replaces the whole file needs it again.
        return header_of(self.schema, self.schema.shape, self.offset)

    def checkpoint(self) -> None:
        self.medium.sync(self.path)

    def commit(self, record: Record = NO_RECORD) -> None:  # noqa: ARG002 - a .npy file has no place for it
        self.check_size()
        self.medium.sync(self.path)
        self.medium.sync_name(self.path)

    def check_size(self) -> None:
        """CorruptError where the file is shorter than its header promises."""
        with disk_errors("look at", self.path):
            found = self.medium.status(self.path).size
        expected = self.offset + self.layout.nbytes
        if found < expected:
            raise CorruptError(f"{self.path}: {found:,} bytes, its header promises {expected:,}")


class NpyFormat:
    """Opens and creates .npy files."""

    name = "npy"
    suffixes = (".npy",)
    checksum = ""
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        return is_file(medium, path) and read_head(medium, path, len(MAGIC))[0] == MAGIC

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        found = read_header(path, medium=medium)
        schema = Schema(found.shape, found.dtype, _one_chunk(found.shape), order=found.order)
        store = NpyStore(path, schema, found.offset, medium.roots(path, allow), medium)
        store.check_size()
        return store

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        place = self.open(path, "", medium=medium).place(())
        more = read_head(medium, path, 0)[1] - place.offset - (place.length or 0)
        if more:
            yield f"{more:,} bytes after the array"

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - a single file
        _refuse_inner(path, inner)
        return open_with_numpy(path)

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        if problem := dtype_problem(schema.dtype):
            raise UsageError(f"npy: {problem}")
        refuse_encoding(schema, asked, "npy holds one raw array", "zarr")
        order, notes = adapt_order(schema, asked, "npy holds", "rawblocks")
        whole = _one_chunk(schema.shape)
        if "chunks" in asked and Grid.of(schema.shape, schema.chunks).count > 1:
            notes.append(f"chunks {chunk_text(schema.chunks)} are ignored: npy is one array without chunks")
        if schema.codec:
            notes.append(f"codec {schema.codec} is not kept: npy is not encoded")
        if schema.fill_value is not None:
            notes.append(f"fill value {schema.fill_value!s} is not kept: npy has none")
        if schema.attributes:
            notes.append(f"attributes {', '.join(schema.attributes)} are not kept: npy has none")
        if schema.axes:
            notes.append(f"axis names {', '.join(schema.axes)} are not kept: npy has none")
        return replace(
            schema,
            chunks=whole,
            shards=None,
            order=order,
            codec=Codec(),
            fill_value=None,
            attributes={},
            axes=None,
            notes=(*schema.notes, *notes),
        )

    def layout(self, schema: Schema) -> Layout:
        return _layout(schema)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - npy has no codecs
        return ChunkLimits(chunked=False)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002 - as the protocol says
        """One file."""
        _refuse_inner(path, inner)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        header = header_of(schema, schema.shape)
        store = NpyStore(path, schema, len(header), medium=medium)
        with disk_errors("create", path):
            medium.create(path, header, size=len(header) + store.layout.nbytes)
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        header = header_of(schema, schema.shape)
        if read_head(medium, path, len(header))[0] != header:
            raise CorruptError(f"{path}: not the header of the array that was being written")
        store = NpyStore(path, schema, len(header), medium=medium)
        store.check_size()
        return store


def _layout(schema: Schema) -> Layout:
    return Layout.raw(schema.dtype, Grid.whole(schema.shape), schema.order)


def _one_chunk(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(n, 1) for n in shape)


def _refuse_inner(path: str, inner: str) -> None:
    if inner:
        raise UsageError(f"{path}: npy holds one array; leave out ::{inner}")


#: Found by the registry.
FORMAT: Format = NpyFormat()
