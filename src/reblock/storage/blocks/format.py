"""The blocks formats: a folder with one file per block and a small manifest, `reblock.json`.

::

    volume/
      reblock.json     shape, dtype, chunks, order, file names, offset of the elements
      0_0.npy          blocks, named by their index; clipped at the edge of the array
      0_1.npy          (blocks: .npy files, rawblocks: headerless .bin files)

The blocks may be on several disks instead, see `disks`; then the folder holds only the manifest.
Chunks may be irregular. Headers of .npy blocks are padded with spaces to one length, which the manifest states as
`offset`, so that no header must be read to find the elements.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from reblock.errors import CorruptError, ExternalError, FormatError, UsageError, option
from reblock.geometry import Grid
from reblock.geometry.grid import chunk_text
from reblock.geometry.placement import AssignOne
from reblock.model.change import Change
from reblock.model.codec import Codec
from reblock.model.disks import Disks
from reblock.model.layout import Layout
from reblock.model.medium import FILE, FOLDER, Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Extent, Format, Index, Read, Store
from reblock.storage import attributes
from reblock.storage.blocks.disks import BlockPlaces, find_folders, named_folder, strangers_on_disks
from reblock.storage.blocks.library import open_with_numpy
from reblock.storage.blocks.manifest import MANIFEST, Manifest, names_files, read_manifest, write_manifest
from reblock.storage.by_extent import RawByExtent
from reblock.storage.checks import dtype_problem
from reblock.storage.conventions import with_singles, without_ties
from reblock.storage.library import LibraryArray
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL, draft_name
from reblock.storage.media.small import check_folder, exists, is_file, new_folder
from reblock.storage.npy_header import adapt_order, header_of, read_header
from reblock.storage.patches import part_schema
from reblock.storage.roots import FileRoots
from reblock.storage.unencoded import refuse_encoding


@dataclass(frozen=True)
class BlocksStore(RawByExtent):
    """One folder of block files."""

    path: str
    """The folder."""
    manifest: Manifest
    """The manifest, `reblock.json`."""
    roots: Roots | None = None
    """The real folder, and other folders that are allowed; None for a new array."""
    medium: Medium = LOCAL
    """The medium of the folder."""
    disk_paths: tuple[str, ...] = ()
    """The folders of its blocks, if they are on several disks."""

    @property
    def format(self) -> str:
        return "rawblocks" if self.manifest.suffix == "bin" else "blocks"

    @property
    def schema(self) -> Schema:
        return self.manifest.schema

    @cached_property
    def layout(self) -> Layout:
        return _layout(self.schema)

    @property
    def described_by(self) -> Sequence[str]:
        return (os.path.join(self.path, MANIFEST),)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - nothing to read
        extent = self.place(index)
        if not self._look_at(index, extent) and (path := self._moved(index, extent.path)) is not None:
            extent = extent._replace(path=path)
            self._look_at(index, extent)
        return [extent] * len(units)

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        return [self._file((*outer, index)) for index in last]

    def place(self, index: Index) -> Extent:
        size = self.layout.objects.box(index).size * self.layout.itemsize
        return Extent(self._file(index), self.manifest.offset, size)

    @cached_property
    def _disk(self) -> AssignOne:
        """Finds the disk of a block."""
        places = self.manifest.places
        return (lambda _: 0) if places is None else places.assign(self.layout.objects.counts)

    def _file(self, index: Index) -> str:
        folder = self.disk_paths[self._disk(index)] if self.disk_paths else self.path
        return os.path.join(folder, self.manifest.file_name(index))

    def _moved(self, index: Index, path: str) -> str | None:
        """The file of a block whose run has ended since the array was opened."""
        if self.manifest.places is None:
            return None
        number = self._disk(index)
        now = named_folder(self.disk_paths[number], self.manifest.places, number)
        return None if now == self.disk_paths[number] else os.path.join(now, os.path.basename(path))

    def preamble(self, index: Index) -> Bytes:
        if self.manifest.suffix == "bin":
            return b""
        return header_of(self.schema, self.layout.objects.box(index).shape, self.manifest.offset)

    # ---------------------------------------------------------------- changes
    def check_patchable(self) -> None:
        if self.manifest.places is not None:
            raise UsageError(
                f"{self.path}: its blocks are on several disks, which cannot be changed: write a new array"
            )

    def part(self, path: str, change: Change) -> BlocksStore:
        schema = part_schema(self.schema, change)
        if self.manifest.suffix == "npy":
            needed = len(header_of(schema, _layout(schema).objects.largest))
            if needed > self.manifest.offset:
                raise UsageError(
                    f"{self.path}: its blocks have headers of {self.manifest.offset} bytes, new ones need {needed}: "
                    "write a new array"
                )
        return BlocksStore(path, replace(self.manifest, schema=schema), medium=self.medium)

    def grown(self, shape: Sequence[int]) -> BlocksStore:
        return replace(self, manifest=self._manifest_of(shape, self.schema.record))

    @property
    def object_grid(self) -> Grid:
        return self.layout.objects

    def object_path(self, index: Index) -> str:
        return self._file(index)

    def describe(self, shape: Sequence[int], record: Record) -> None:
        write_manifest(self.path, self._manifest_of(shape, record), self.medium)

    def _manifest_of(self, shape: Sequence[int], record: Record) -> Manifest:
        return replace(self.manifest, schema=replace(self.schema, shape=tuple(shape), record=record))

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        for folder in (*self.disk_paths, self.path):
            self.medium.sync(folder)

    def commit(self, record: Record = NO_RECORD) -> None:
        # Names of the blocks first: if the manifest exists, so do the blocks.
        self.checkpoint()
        write_manifest(self.path, replace(self.manifest, schema=replace(self.schema, record=record)), self.medium)
        self.medium.sync_name(self.path)

    def check_first_block(self) -> None:
        """Check the first block's header against the manifest; a missing block is left to the reader."""
        first = (0,) * self.layout.ndim
        if self.manifest.suffix == "bin" or not self.layout.objects.count:
            return
        path = self.place(first).path
        if not exists(self.medium, path):
            return
        self._look_at(first, self.place(first))
        header, shape = read_header(path, self.roots, medium=self.medium), self.layout.objects.box(first).shape
        plain = len(shape) < 2
        said = (shape, self.schema.dtype, self.manifest.offset, plain or self.schema.order)
        found = (header.shape, header.dtype, header.offset, plain or header.order)
        if said != found:
            raise FormatError(f"{path}: the header says {found}, {MANIFEST} says {said} (shape, type, offset, order)")

    def _look_at(self, index: Index, extent: Extent) -> bool:
        """Whether a block exists; it must be a regular file of the right size, inside the roots."""
        try:
            found = self.medium.status(extent.path, roots=self.roots)
        except FileNotFoundError:
            return False
        if found.kind != FILE:
            raise FormatError(f"{extent.path}: a block must be a file, not {found.kind}")
        expected = extent.offset + (extent.length or 0)
        if found.size != expected:
            chunk = ",".join(map(str, index))
            raise CorruptError(
                f"{self.path}: chunk ({chunk}) in {extent.path}, bytes {extent.offset} to {expected}: the file has "
                f"{found.size:,} bytes, a block of its shape has {expected:,}"
            )
        return True


@dataclass(frozen=True)
class BlocksFormat:
    """Opens and creates folders of block files."""

    name: str
    """As in `--to`."""
    suffix: str
    """Ending of the block files, without the dot."""
    suffixes: tuple[str, ...] = ()
    """None: a block folder is recognised by its manifest, and requested by a trailing slash."""
    checksum: str = ""
    """None: block files have no place for one."""
    disks: Disks | None = None
    """The disks over which new arrays are spread."""

    def on_disks(self, disks: Disks) -> BlocksFormat:
        """The same format, for arrays on these disks."""
        return replace(self, disks=disks)

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        if not is_file(medium, os.path.join(path, MANIFEST)):
            return False
        try:
            if names_files(path, medium.roots(path), medium):
                return False
            raw = read_manifest(path, medium.roots(path), medium=medium).suffix == "bin"
        except (FormatError, ExternalError):
            # It is still a block folder; opening it reports what is wrong with the manifest.
            raw = False
        return raw == (self.suffix == "bin")

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        roots = medium.roots(path, (*allow, *(self.disks.folders if self.disks else ())))
        manifest = read_manifest(path, roots, medium=medium)
        store = BlocksStore(path, manifest, roots, medium, _disk_paths(manifest, roots, medium))
        store.check_first_block()
        return store

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        manifest = read_manifest(path, medium.roots(path), medium=medium)
        counts = _layout(manifest.schema).objects.counts
        # Drafts had another name until 0.1.
        own = (MANIFEST, draft_name(MANIFEST), f"{MANIFEST}.new")
        here = manifest.places is None
        with disk_errors("list", path):
            for name, kind in medium.entries(path):
                if kind == FOLDER or not (name in own or (here and manifest.is_block(name, counts))):
                    yield name

    def disk_folders(self, path: str, allow: Sequence[str], *, medium: Medium = LOCAL) -> list[str]:
        """The folders of blocks of an existing array, if nothing else is in them; [] if it is not spread."""
        roots = medium.roots(path, allow)
        manifest = read_manifest(path, roots, medium=medium)
        counts, folders = _layout(manifest.schema).objects.counts, _disk_paths(manifest, roots, medium)
        with disk_errors("list", path):
            strange = strangers_on_disks(folders, lambda name: manifest.is_block(name, counts), medium)
            if (first := next(strange, None)) is not None:
                raise FormatError(f"{first} is not a block of {path}")
        # Their runs may have been killed before they got these names.
        places = manifest.places
        return [named_folder(one, places, number) for number, one in enumerate(folders)] if places else []

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:
        _refuse_inner(path, inner)
        roots = LOCAL.roots(path, allow)
        # Links are followed anyway.
        return open_with_numpy(path, _disk_paths(read_manifest(path), roots, LOCAL))

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        if problem := dtype_problem(schema.dtype):
            raise UsageError(f"{self.name}: {problem}")
        refuse_encoding(schema, asked, f"{self.name} are raw files", "zarr")
        order, notes = self._order(schema, asked)
        if schema.codec:
            notes.append(f"codec {schema.codec} is not kept: {self.name} are not encoded")
        if schema.shards is not None:
            notes.append(f"shards {chunk_text(schema.shards)} are not kept: each chunk is a file")
        found, ties = without_ties(schema.attributes)
        found, singles = with_singles(found, netcdf=schema.netcdf)
        kept, changed = attributes.to_json(found)
        return replace(
            schema,
            shards=None,
            order=order,
            codec=Codec(),
            attributes=kept,
            notes=(*schema.notes, *notes, *ties, *singles, *changed),
        )

    def layout(self, schema: Schema) -> Layout:
        return _layout(schema)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        """One file for each block."""
        _refuse_inner(path, inner)
        return BlocksStore(
            path, self._manifest(schema), medium=medium, disk_paths=self.disks.current if self.disks else ()
        )

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        with disk_errors("create", path):
            new_folder(medium, path)
            for folder in self.disks.current if self.disks else ():
                new_folder(medium, folder)
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        for folder in (path, *(self.disks.current if self.disks else ())):
            check_folder(medium, folder)
        return store

    def _manifest(self, schema: Schema) -> Manifest:
        offset = 0
        if self.suffix == "npy":
            # The header of the largest block is the longest; the others are padded to its length.
            offset = len(header_of(schema, _layout(schema).objects.largest))
        return Manifest(schema, self.suffix, "{index}." + self.suffix, offset, BlockPlaces.of(self.disks))

    def _order(self, schema: Schema, asked: Collection[str]) -> tuple[tuple[int, ...], list[str]]:
        if self.suffix == "bin":
            return schema.order, []
        return adapt_order(schema, asked, ".npy blocks hold", option("to_format", "rawblocks"))


def _layout(schema: Schema) -> Layout:
    return Layout.raw(schema.dtype, Grid.of(schema.shape, schema.chunks), schema.order)


def _disk_paths(manifest: Manifest, roots: Roots | None, medium: Medium) -> tuple[str, ...]:
    """The folders of blocks on several disks; () if they are in the array's own folder."""
    if manifest.places is None:
        return ()
    if not isinstance(roots, FileRoots):
        raise FormatError(f"blocks on several disks are local files, and the manifest is in {medium.name}")
    return find_folders(manifest.places, roots, medium)


def _refuse_inner(path: str, inner: str) -> None:
    if inner:
        raise UsageError(f"{path}: a block folder holds one array; leave out ::{inner}")


#: Found by the registry: blocks as .npy files.
FORMAT: Format = BlocksFormat("blocks", "npy")
#: Found by the registry: blocks as headerless files.
FORMAT_RAW: Format = BlocksFormat("rawblocks", "bin")
