"""The fileblocks format: a folder with one file of any single-file format for each block.

::

    scan/
      reblock.json     shape, dtype, chunks, format of the files, pattern of their names
      b_0_0_0.nii      blocks, clipped at the edge of the array; each is an ordinary file of its format
      b_0_0_1.nii

The name in the registry may tell more: `fileblocks:hdf5`, `fileblocks:nii:b_{0}_{1}_{2}.nii`. So a request, a journal
and `resume` need nothing else. A folder without a manifest is opened only where the name tells the format, because
every file in it has to be looked at (`foreign`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from reblock.errors import ExternalError, FormatError, UsageError
from reblock.geometry import Grid
from reblock.geometry.grid import chunk_text
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import FOLDER, Medium
from reblock.model.schema import Schema
from reblock.model.store import Format, Store
from reblock.storage import attributes, registry
from reblock.storage.checks import dtype_problem
from reblock.storage.conventions import with_singles, without_ties
from reblock.storage.fileblocks.foreign import find_blocks
from reblock.storage.fileblocks.library import open_with_libraries
from reblock.storage.fileblocks.manifest import MANIFEST, RAW, FileManifest, is_file_manifest, read_manifest
from reblock.storage.fileblocks.pattern import INDEX, NamePattern
from reblock.storage.fileblocks.store import FileBlocksStore, distinct_lengths, layout_of
from reblock.storage.fileblocks.templates import block_schema, check_single_file, elements_run, no_block_format
from reblock.storage.library import LibraryArray
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL, draft_name
from reblock.storage.media.small import check_folder, exists, is_file, new_folder
from reblock.storage.unencoded import refuse_encoding

#: The most different shapes of blocks.
_MOST_SHAPES = 4096
_NAME = "fileblocks"


@dataclass(frozen=True)
class FileBlocksFormat:
    """Opens and creates folders of files."""

    kind: str = "npy"
    """Format of the files, by its name in the registry, or `raw`."""
    pattern: NamePattern = field(default_factory=lambda: NamePattern(INDEX + ".npy"))
    """Names of the files."""
    said: str = ""
    """What was said beside `fileblocks`; "" = nothing, so that a manifest decides."""
    suffixes: tuple[str, ...] = ()
    """None: such a folder is recognised by its manifest."""
    checksum: str = ""
    """None: block files have no place for one."""

    @property
    def name(self) -> str:
        return _name_of(self.kind, self.pattern)

    def variant(self, said: str) -> FileBlocksFormat:
        """The format for other files: `KIND[:PATTERN]`, where KIND is the name or an ending of a format."""
        word, _, text = said.partition(":")
        kind, ending = (RAW, "raw") if word in (RAW, "bin") else _find_kind(word)
        return FileBlocksFormat(kind, NamePattern(text or f"{INDEX}.{ending}"), said)

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        if not is_file(medium, os.path.join(path, MANIFEST)):
            return False
        try:
            return is_file_manifest(path, medium.roots(path), medium)
        except ExternalError:
            return False

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        roots = medium.roots(path, allow)
        if self.said and not exists(medium, os.path.join(path, MANIFEST)):
            pattern = self.pattern if ":" in self.said else None
            schema, found = find_blocks(path, self.kind, pattern, roots, medium)
            manifest = FileManifest(schema, self.kind, self.pattern)
            return FileBlocksStore(path, manifest, self.name, roots, medium, found=found)
        manifest = read_manifest(path, roots, medium=medium)
        if manifest.kind != RAW:
            registry.get(manifest.kind)
        store = FileBlocksStore(path, manifest, _name_of(manifest.kind, manifest.pattern), roots, medium)
        _check_first_block(store)
        return store

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        manifest = read_manifest(path, medium.roots(path), medium=medium)
        counts = layout_of(manifest.schema).objects.counts
        own = (MANIFEST, draft_name(MANIFEST))
        with disk_errors("list", path):
            for name, kind in medium.entries(path):
                if kind == FOLDER or not (name in own or manifest.pattern.is_block(name, counts)):
                    yield name

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:
        _refuse_inner(path, inner)
        return open_with_libraries(path, allow)

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        if problem := dtype_problem(schema.dtype):
            raise UsageError(f"{self.name}: {problem}")
        self.pattern.check_axes(schema.ndim)
        refuse_encoding(schema, asked, f"{_NAME} are raw files", "zarr")
        grid = Grid.of(schema.shape, schema.chunks)
        notes = []
        block = block_schema(grid.largest, schema.dtype, schema.order)
        if self.kind != RAW:
            shapes = 1
            for axis in grid.axes if grid.count else ():
                shapes *= len(distinct_lengths(axis))
            if shapes > _MOST_SHAPES:
                raise UsageError(
                    f"blocks of {shapes:,} different shapes, the limit is {_MOST_SHAPES:,}: use raw blocks"
                )
            files = registry.get(self.kind)
            # Chunks are those of the whole array: a block is one of them.
            block = files.adapt(block, {*asked} - {"chunks", "codec", "shards"})
            check_single_file(files, block)
            if block.codec or block.shards or block.shape != grid.largest:
                raise no_block_format(self.kind)
            notes += [note for note in block.notes if block.dtype != schema.dtype or block.order != schema.order]
        if schema.codec:
            notes.append(f"codec {schema.codec} is not kept: {_NAME} are not encoded")
        if schema.shards is not None:
            notes.append(f"shards {chunk_text(schema.shards)} are not kept: each chunk is a file")
        found, ties = without_ties(schema.attributes)
        found, singles = with_singles(found, netcdf=schema.netcdf)
        kept, changed = attributes.to_json(found)
        return replace(
            schema,
            dtype=block.dtype,
            shards=None,
            order=block.order,
            codec=Codec(),
            attributes=kept,
            notes=(*schema.notes, *notes, *ties, *singles, *changed),
        )

    def layout(self, schema: Schema) -> Layout:
        return layout_of(schema)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        """One file for each block."""
        _refuse_inner(path, inner)
        return FileBlocksStore(path, FileManifest(schema, self.kind, self.pattern), self.name, None, medium, True)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        with disk_errors("create", path):
            new_folder(medium, path)
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        check_folder(medium, path)
        return store


def _find_kind(word: str) -> tuple[str, str]:
    """Name and file ending of a format that is named, or whose ending is."""
    found = registry.named(word)
    if found is None or found == _NAME:
        raise UsageError(f"{word!r} is not a format of block files: use npy, raw, hdf5, or another format of one file")
    kind = registry.get(found)
    if not kind.suffixes:
        raise no_block_format(kind.name)
    ending = word if f".{word}" in kind.suffixes else kind.suffixes[0].lstrip(".")
    return kind.name, ending


def _name_of(kind: str, pattern: NamePattern) -> str:
    """The name by which such a folder would be made again, as short as possible."""
    if pattern.text == f"{INDEX}.{kind}":
        return _NAME if kind == "npy" else f"{_NAME}:{kind}"
    return f"{_NAME}:{kind}:{pattern.text}"


def _check_first_block(store: FileBlocksStore) -> None:
    """Check the first block against the manifest; a missing block is left to the reader."""
    grid, manifest = store.layout.objects, store.manifest
    if manifest.kind == RAW or not grid.count:
        return
    first = (0,) * grid.ndim
    place = store.place(first)
    if not exists(store.medium, place.path):
        return
    block = registry.get(manifest.kind).open(place.path, "", **registry.elsewhere(store.medium))
    said = (grid.box(first).shape, store.schema.dtype, store.schema.order, (place.offset, place.length))
    found = (block.schema.shape, block.layout.dtype, block.layout.order, elements_run(block))
    if said != found:
        raise FormatError(
            f"{place.path}: the file says {found}, {MANIFEST} says {said} (shape, type, order, place of the elements)"
        )


def _refuse_inner(path: str, inner: str) -> None:
    if inner:
        raise UsageError(f"{path}: a block folder holds one array; leave out ::{inner}")


#: Found by the registry.
FORMAT: Format = FileBlocksFormat()
