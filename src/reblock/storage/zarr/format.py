"""The zarr formats: open and create v2 and v3 arrays."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice

import numpy as np

from reblock.errors import CorruptError, DiskError, FormatError, TargetExistsError, UsageError
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import FILE, FOLDER, Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, ChunkLimits, Decoder, Extent, Flat, Format, Index, Read, Scratch, Store, fresh
from reblock.storage.by_extent import ByExtent
from reblock.storage.checks import load_json, show
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.registration import Parts
from reblock.storage.codecs.registry import decoder, divider
from reblock.storage.library import LibraryArray
from reblock.storage.location import Location
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import check_folder, exists, is_file, new_folder, read_head
from reblock.storage.records import RECORD_FILE
from reblock.storage.zarr import shards as zarr_shards
from reblock.storage.zarr.contents import strangers
from reblock.storage.zarr.files import describe, metadata_files
from reblock.storage.zarr.library import open_with_zarr_python
from reblock.storage.zarr.meta import Meta, in_chunk_order, parse_v2, parse_v3
from reblock.storage.zarr.schema import adapt, chunk_limits

#: The most folders that are searched for the arrays of a group; a folder with a long document counts for more.
_MANY_FOLDERS = 10_000
_LONG_BYTES = 1024
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
            return self._extents_of_parts(self.parts, index, units, read)
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

    def _extents_of_parts(
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

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        self.medium.sync(self.folder)

    def commit(self, record: Record = NO_RECORD) -> None:
        if self.made_of is None:
            return
        self._write_indices()
        schema = replace(self.made_of, record=record)
        for name, data in metadata_files(schema, _parts(self.path, self.inner), self.meta.version):
            # The array's own metadata comes last: until then, no array can be opened here.
            self.medium.replace(os.path.join(self.path, name), data)
        self.medium.sync_name(self.path)

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


@dataclass(frozen=True)
class ZarrFormat:
    """Opens zarr arrays of both versions, and creates those of one."""

    name: str
    """As in `--to`."""
    version: int
    """Version of new arrays."""
    suffixes: tuple[str, ...] = (".zarr",)
    """File name endings."""
    checksum: str = "crc32c"
    """The codec that adds a checksum to a chunk."""

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        names = ("zarr.json", ".zarray", ".zgroup")[self.version == 2 :]
        return any(is_file(medium, os.path.join(path, name)) for name in names)

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        folder = os.path.join(path, *_parts(path, inner))
        roots = medium.roots(path, allow)
        meta = _read_array(medium, folder, roots)
        if meta is not None:
            return ZarrStore(path, "/".join(_parts(path, inner)), meta, roots, medium=medium)
        if not _is_group(medium, folder):
            with disk_errors("open", folder):
                medium.entries(folder)
            raise FormatError(f"{folder}: not a zarr array or group, there is no zarr.json, .zarray or .zgroup")
        found = list(islice(_arrays(medium, folder, roots), 21))
        if len(found) == 1:
            return self.open(path, "/".join([*_parts(path, inner), found[0]]), allow, medium=medium)
        there = ", ".join(found[:20]) + (", …" if len(found) > 20 else "")
        advice = f"name one of its arrays after '::': {there}" if found else "there is no array in it"
        raise FormatError(f"{folder}: a zarr group; {advice}")

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        found, roots = self.open(path, "", medium=medium), medium.roots(path)
        if isinstance(found, ZarrStore):
            yield from strangers(medium, path, _parts(path, found.inner), found.meta, roots)

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - links are followed anyway
        return open_with_zarr_python(Location(path, inner))

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return adapt(schema, asked, self.version)

    def layout(self, schema: Schema) -> Layout:
        return self._describe(schema).layout

    def _describe(self, schema: Schema) -> Meta:
        return zarr_shards.by_chunk(in_chunk_order(describe(schema, self.version), schema.chunk_order))

    def chunk_limits(self, codec: Codec) -> ChunkLimits:
        return chunk_limits(codec, self.version)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        try:
            new_folder(medium, path)
        except FileExistsError:
            raise TargetExistsError(f"{path} exists already") from None
        folder = path
        for part in _parts(path, inner):
            folder = os.path.join(folder, part)
            medium.make_folder(folder)
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        check_folder(medium, store.folder)
        return store

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> ZarrStore:
        """A file for each chunk or shard."""
        inside = "/".join(_parts(path, inner))
        return ZarrStore(path, inside, self._describe(schema), made_of=schema, medium=medium)


def _places(index: Index, units: Sequence[Index], counts: Sequence[int]) -> list[Index]:
    """Indices of units inside their object, which has `counts` units along each axis."""
    return [tuple(u - i * n for u, i, n in zip(unit, index, counts, strict=True)) for unit in units]


# ---------------------------------------------------------------- metadata files
def _read_array(medium: Medium, folder: str, roots: Roots | None) -> Meta | None:
    """The array in a folder, or None."""
    path = os.path.join(folder, "zarr.json")
    if exists(medium, path):
        document = load_json(path, roots, medium=medium)
        if document.get("node_type") == "group" and document.get("zarr_format") == 3:
            return None
        return parse_v3(document, where=path)
    path = os.path.join(folder, ".zarray")
    if not exists(medium, path):
        return None
    attributes, record = (
        load_json(beside, roots, medium=medium) if exists(medium, beside) else {}
        for beside in (os.path.join(folder, name) for name in (".zattrs", RECORD_FILE))
    )
    return parse_v2(load_json(path, roots, medium=medium), attributes, where=path, record=record)


def _is_group(medium: Medium, folder: str) -> bool:
    return any(exists(medium, os.path.join(folder, name)) for name in ("zarr.json", ".zgroup"))


def _is_array(medium: Medium, folder: str, roots: Roots | None) -> bool:
    if exists(medium, os.path.join(folder, ".zarray")):
        return True
    path = os.path.join(folder, "zarr.json")
    return exists(medium, path) and load_json(path, roots, medium=medium).get("node_type") == "array"


def _arrays(medium: Medium, folder: str, roots: Roots | None) -> Iterator[str]:
    """Paths of the arrays below a group, nearest first; links are not followed."""
    waiting, seen = [""], 0
    while waiting:
        here = waiting.pop(0)
        with disk_errors("list", folder):
            found = sorted(name for name, kind in medium.entries(os.path.join(folder, here)) if kind == FOLDER)
        for name in found:
            path = f"{here}/{name}".lstrip("/")
            seen += 1 + _size(medium, os.path.join(folder, path, "zarr.json")) // _LONG_BYTES
            if seen > _MANY_FOLDERS:
                return
            if _is_array(medium, os.path.join(folder, path), roots):
                yield path
            else:
                waiting.append(path)


def _size(medium: Medium, path: str) -> int:
    try:
        return medium.status(path, follow=False).size
    except (FileNotFoundError, DiskError):
        return 0


def _parts(path: str, inner: str) -> list[str]:
    parts = [part for part in inner.split("/") if part]
    if any(part in (".", "..") or "\0" in part for part in parts):
        raise UsageError(f"{path}: inner path {show(inner)} must name arrays and groups, without '.' and '..'")
    return parts


#: Found by the registry: new arrays are v3.
FORMAT: Format = ZarrFormat("zarr", 3)
#: Found by the registry: new arrays are v2.
FORMAT2: Format = ZarrFormat("zarr2", 2)
