"""One zarr array of either version: where its bytes are, and what they mean."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from reblock.errors import CorruptError, DiskError, FormatError
from reblock.geometry import Grid
from reblock.model.change import Change
from reblock.model.layout import Layout
from reblock.model.medium import FILE, Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Read, Scratch, Store, fresh
from reblock.storage.by_extent import ByExtent
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.registration import Parts
from reblock.storage.codecs.registry import decoder, divider
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, read_head
from reblock.storage.zarr import shards as zarr_shards
from reblock.storage.zarr.changing import check_patchable, describe_again
from reblock.storage.zarr.files import metadata_files
from reblock.storage.zarr.meta import Meta, with_shape
from reblock.storage.zarr.nodes import UNFINISHED, parts_of

#: Chunks whose headers are read before an array is read in parts of chunks.
_HEADS = 8


@dataclass(frozen=True)
class ZarrStore(ByExtent):
    """One zarr array."""

    path: str
    """Folder that the user named."""
    inner: str
    """Path of the array inside it."""
    meta: Meta
    """The parsed metadata."""
    roots: Roots | None = None
    """The real folder, and other folders that are allowed; None for a new array."""
    made_of: Schema | None = field(default=None, repr=False)
    """The schema of a new array, which `commit` writes; None for an existing one."""
    parts: Parts | None = None
    """The parts in which chunks are read; None = whole chunks."""
    stored_bytes: tuple[int, ...] = ()
    """Stored sizes of the chunks, if they were looked up."""
    medium: Medium = LOCAL
    """The medium of the folder."""

    @property
    def format(self) -> str:
        return "zarr" if self.meta.version == 3 else "zarr2"

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}" if self.inner else self.path

    @property
    def schema(self) -> Schema:
        return self.meta.schema

    @cached_property
    def layout(self) -> Layout:
        whole = self.meta.layout.measured(self.stored_bytes)
        return whole if self.parts is None else self.parts.layout(whole)

    @property
    def fills(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        """The codec of a chunk: the same in both versions, and inside a shard."""
        return f"zarr {self.schema.codec}" if self.meta.chain and isinstance(self.meta.chain, Chain) else ""

    @property
    def decoder(self) -> Decoder | None:
        found = decoder(self.meta.chain.codec) if isinstance(self.meta.chain, Chain) else None
        return found if self.parts is None else self.parts.decoder(found)

    @cached_property
    def folder(self) -> str:
        """The folder below which the array's keys are."""
        return os.path.join(self.path, self.inner) if self.inner else self.path

    @cached_property
    def _shards(self) -> zarr_shards.RawShards | None:
        """Shards that are written chunk by chunk."""
        if self.meta.shard is None or self.layout.shards is None:
            return None
        return zarr_shards.RawShards(self.meta, self.meta.shard, self.layout.shards, self.folder)

    @cached_property
    def _prefix(self) -> str:
        return os.path.join(self.folder, "")

    @property
    def described_by(self) -> Sequence[str]:
        names = ("zarr.json",) if self.meta.version == 3 else (".zarray", ".zattrs")
        return [os.path.join(self.folder, name) for name in names]

    # ---------------------------------------------------------------- where bytes lie
    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:
        path = self._path(index)
        shard = self.meta.shard
        if self.parts is not None:
            return self._extents_ofparts_of(self.parts, index, units, read)
        if shard is None:
            return [Extent(path)] * len(units)
        if not self.layout.indexed:
            return [self.place(index)]
        where = Extent(path, 0 if shard.at_start else -shard.index_bytes, shard.index_bytes)
        try:
            data = read(where)
        except FileNotFoundError:
            return [None] * len(units)
        try:
            return zarr_shards.extents(
                self.meta, shard, path, data, _places(index, units, zarr_shards.per_shard(shard))
            )
        except CorruptError as error:
            chunk, size = ",".join(map(str, index)), shard.index_bytes
            which = f"bytes 0 to {size}" if shard.at_start else f"the last {size} bytes"
            raise CorruptError(f"{self.location}: chunk ({chunk}) in {path}, {which}: shard index: {error}") from error

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        first = self._path((*outer, 0))[:-1]
        return [f"{first}{index}" for index in last]

    def _extents_ofparts_of(
        self, parts: Parts, index: Index, units: Sequence[Index], read: Read
    ) -> Sequence[Extent | None]:
        path = self._path(index)
        try:
            data = read(Extent(path, 0, parts.table_bytes))
            return parts.extents(path, data, _places(index, units, parts.counts))
        except FileNotFoundError:
            return [None] * len(units)
        except CorruptError as error:
            if path in str(error):
                raise
            chunk = ",".join(map(str, index))
            where = f"{self.location}: chunk ({chunk}) in {path}, bytes 0 to {parts.table_bytes}"
            raise CorruptError(f"{where}: {error}") from error

    def measured(self) -> Store:
        if not self.layout.is_measurable or self.parts is not None:
            return self
        try:
            sizes = tuple(chain.from_iterable(map(self._sizes, self.layout.objects.indices())))
        except (DiskError, FormatError, CorruptError):
            # The reader reports what is wrong with it.
            return self
        return replace(self, stored_bytes=sizes)

    def _sizes(self, index: Index) -> Sequence[int]:
        """Stored sizes of the chunks in a file."""
        path, shard = self._path(index), self.meta.shard
        try:
            found = self.medium.status(path, follow=False)
        except FileNotFoundError:
            return []
        if found.kind != FILE:
            raise FormatError(f"{path}: not a regular file, but {found.kind}")
        return [found.size] if shard is None else zarr_shards.sizes(shard, self.medium, path, self.roots)

    def divided(self) -> Store | None:
        chunks = [cut for cut in self.schema.chunks if isinstance(cut, int)]
        divide = divider(self.meta.chain.codec) if isinstance(self.meta.chain, Chain) else None
        if divide is None or self.meta.shard or len(chunks) < max(self.layout.ndim, 1):
            return None
        found = {divide(self.layout, chunks, head) for head in self._heads(divide.head_bytes)}
        return replace(self, parts=found.pop()) if len(found) == 1 and None not in found else None

    def _heads(self, size: int) -> Iterator[bytes]:
        """The first bytes of some of the stored chunks."""
        grid = self.layout.objects
        for number in sorted({n * (grid.count - 1) // (_HEADS - 1) for n in range(_HEADS)}) if grid.count else ():
            index = tuple(map(int, np.unravel_index(number, grid.counts)))
            try:
                yield read_head(self.medium, self._path(index), size, self.roots)[0]
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise

    def place(self, index: Index) -> Extent:
        if self._shards is not None:
            return self._shards.place(index)
        layout = self.meta.layout
        return Extent(self._path(index), 0, None if layout.codec or layout.indexed else layout.object_bytes)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - all objects start with their data
        return b""

    def _path(self, index: Index) -> str:
        return f"{self._prefix}{self.meta.key(index)}"

    # ---------------------------------------------------------------- what bytes mean
    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        if self.parts is not None and isinstance(self.meta.chain, Chain):
            self.parts.decode(self.meta.chain.decode, data, extent, out)
        else:
            self.meta.chain.decode(data, out, scratch)

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        if self.layout.indexed and self.meta.shard is not None:
            if self.schema.chunk_order:
                return zarr_shards.encode_in_order(self.meta, self.meta.shard, data, scratch)
            return zarr_shards.encode(self.meta, self.meta.shard, data, room, scratch)
        return self.meta.chain.encode(data, room, scratch)

    # ---------------------------------------------------------------- changes
    def check_patchable(self) -> None:
        check_patchable(self.meta, self.location)

    def part(self, path: str, change: Change) -> ZarrStore:
        meta = zarr_shards.by_chunk(with_shape(self.meta, change.box.shape))
        return ZarrStore(path, "", meta, medium=self.medium)

    def grown(self, shape: Sequence[int]) -> ZarrStore:
        return replace(self, meta=with_shape(self.meta, shape), parts=None, stored_bytes=())

    @property
    def object_grid(self) -> Grid:
        return self.layout.shards or self.layout.objects

    def object_path(self, index: Index) -> str:
        return self._path(index)

    def describe(self, shape: Sequence[int], record: Record) -> None:
        describe_again(self.medium, self.folder, self.meta.version, shape, record)

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        self.medium.sync(self.folder)

    def commit(self, record: Record = NO_RECORD) -> None:
        self._write_indices()
        if self.made_of is None:
            return
        schema, parts = replace(self.made_of, record=record), parts_of(self.path, self.inner)
        files = metadata_files(schema, parts, self.meta.version)
        for name, data in files[len(parts) :] if self._is_in_tree(parts) else files:
            # The array's own metadata comes last: until then, no array can be opened here.
            self.medium.replace(os.path.join(self.path, name), data)
        self.medium.sync_name(self.path)

    def _is_in_tree(self, parts: Sequence[str]) -> bool:
        """Whether the groups above the array are part of a hierarchy that is written as a whole."""
        above = (os.path.join(self.path, *parts[:count]) for count in range(len(parts)))
        return any(exists(self.medium, os.path.join(folder, UNFINISHED)) for folder in above)

    def _write_indices(self) -> None:
        """Write the indices of shards that were written chunk by chunk."""
        if self._shards is None:
            return
        paths = []
        for path, offset, index in self._shards.indices():
            with disk_errors("write", path):
                self.medium.status(path)  # a shard that has gone is not made anew
                with self.medium.writer(path) as handle:
                    handle.write([index], offset)
            paths.append(path)
        self.medium.sync_all(paths, self.path)


def _places(index: Index, units: Sequence[Index], counts: Sequence[int]) -> list[Index]:
    """Indices of units inside their object, which has `counts` units along each axis."""
    return [tuple(u - i * n for u, i, n in zip(unit, index, counts, strict=True)) for unit in units]
