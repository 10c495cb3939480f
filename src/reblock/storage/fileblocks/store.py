"""FileBlocksStore: an array whose blocks are files of another format, read and written by extents."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from reblock.errors import CorruptError, FormatError, UsageError
from reblock.geometry import Axis, Grid
from reblock.model.change import Change
from reblock.model.layout import Layout
from reblock.model.medium import FILE, Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Extent, Index, Placed, Read
from reblock.storage import registry
from reblock.storage.by_extent import RawByExtent
from reblock.storage.fileblocks.manifest import MANIFEST, RAW, FileManifest, write_manifest
from reblock.storage.fileblocks.templates import Template, make_template
from reblock.storage.media.local import LOCAL
from reblock.storage.patches import part_schema

#: The template of files that are elements and nothing else.
_BARE = Template(b"", b"")


@dataclass(frozen=True)
class FileBlocksStore(RawByExtent):
    """One folder of files."""

    path: str
    """The folder."""
    manifest: FileManifest
    """What `reblock.json` says, or what was found where there is none."""
    format: str = "fileblocks"
    """Name of the format, with that of the files and the pattern."""
    roots: Roots | None = None
    """The real folder, and other folders that are allowed; None for a new array."""
    medium: Medium = LOCAL
    """The medium of the folder."""
    is_new: bool = False
    """Whether it is being written, so that templates tell where elements are."""
    found: Mapping[Index, tuple[str, int]] | None = field(default=None, repr=False)
    """File and offset of each block of a folder without a manifest."""
    origin: tuple[int, ...] = ()
    """If this is a part of another array, where it begins there; otherwise ()."""

    @property
    def schema(self) -> Schema:
        return self.manifest.schema

    @cached_property
    def layout(self) -> Layout:
        return layout_of(self.schema)

    @property
    def described_by(self) -> Sequence[str]:
        if self.found is not None:
            return tuple(os.path.join(self.path, name) for name, _ in self.found.values())
        return (os.path.join(self.path, MANIFEST),)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - nothing to read
        extent = self._extent(index)
        self._look_at(index, extent)
        return [extent] * len(units)

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        if not self.layout.ndim:
            return [self._file(())]
        return [self._file((*outer, index)) for index in last]

    def place(self, index: Index) -> Extent:
        return self._extent(index)

    def preamble(self, index: Index) -> Bytes:
        box = self.layout.objects.box(index)
        head = self._template(box.shape).head
        if self._placed is None:
            return head
        return self._placed.moved_head(head, box.shift(self.origin).start if self.origin else box.start)

    # ---------------------------------------------------------------- changes
    def check_patchable(self) -> None:
        if self.found is not None:
            raise UsageError(f"{self.path} has no {MANIFEST}, so its blocks cannot be changed: write a new array")

    def part(self, path: str, change: Change) -> FileBlocksStore:
        manifest = replace(self.manifest, schema=part_schema(self.schema, change))
        return FileBlocksStore(path, manifest, self.format, None, self.medium, True, origin=change.box.start)

    def grown(self, shape: Sequence[int]) -> FileBlocksStore:
        return replace(self, manifest=self._manifest_of(shape, self.schema.record), is_new=True)

    @property
    def object_grid(self) -> Grid:
        return self.layout.objects

    def object_path(self, index: Index) -> str:
        return self._file(index)

    def describe(self, shape: Sequence[int], record: Record) -> None:
        # There may be blocks of new shapes; offsets of old ones stay as they are.
        offsets = {**self.grown(shape).offsets(), **self.manifest.offsets}
        write_manifest(self.path, replace(self._manifest_of(shape, record), offsets=offsets), self.medium)

    def _manifest_of(self, shape: Sequence[int], record: Record) -> FileManifest:
        return replace(self.manifest, schema=replace(self.schema, shape=tuple(shape), record=record))

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        self.medium.sync(self.path)

    def commit(self, record: Record = NO_RECORD) -> None:
        self._write_tails()
        # Names of the blocks first: if the manifest exists, so do the blocks.
        self.medium.sync(self.path)
        schema = replace(self.schema, record=record)
        write_manifest(self.path, replace(self.manifest, schema=schema, offsets=self.offsets()), self.medium)
        self.medium.sync_name(self.path)

    def _write_tails(self) -> None:
        """Write the bytes after the elements, in formats that have such bytes."""
        if not any(self._template(shape).tail for shape in self.offsets()):
            return
        written = []
        for index in self.layout.objects.indices():
            tail = self._template(self.layout.objects.box(index).shape).tail
            if tail:
                place = self.place(index)
                with self.medium.writer(place.path) as handle:
                    handle.write([tail], place.offset + (place.length or 0))
                written.append(place.path)
        self.medium.sync_all(written, self.path)

    def offsets(self) -> dict[tuple[int, ...], int]:
        """The bytes before the elements, for each shape of a block."""
        if self.manifest.kind == RAW or not self.layout.objects.count:
            return {}
        lengths = [distinct_lengths(axis) for axis in self.layout.objects.axes]
        return {shape: len(self._template(shape).head) for shape in product(*lengths)}

    def _template(self, shape: tuple[int, ...]) -> Template:
        if self.manifest.kind == RAW:
            return _BARE
        return make_template(self.manifest.kind, shape, self.schema.dtype.str, self.schema.order, self._described)

    @cached_property
    def _placed(self) -> Placed | None:
        """The format of the files, if their heads tell where they are in space."""
        files: Any = None if self.manifest.kind == RAW else registry.get(self.manifest.kind)
        return files if isinstance(files, Placed) else None

    @cached_property
    def _described(self) -> str:
        """The attributes that the files get: all, if their heads tell a place in space, else none."""
        return "{}" if self._placed is None else json.dumps(dict(self.schema.attributes), sort_keys=True)

    def _file(self, index: Index) -> str:
        name = self.manifest.pattern.name(index) if self.found is None else self.found[index][0]
        return os.path.join(self.path, name)

    def _extent(self, index: Index) -> Extent:
        shape = self.layout.objects.box(index).shape
        if self.found is not None:
            offset = self.found[index][1]
        elif self.is_new:
            offset = len(self._template(shape).head)
        else:
            offset = self._known_offset(shape)
        return Extent(self._file(index), offset, self.layout.objects.box(index).size * self.layout.itemsize)

    def _known_offset(self, shape: tuple[int, ...]) -> int:
        if self.manifest.kind == RAW:
            return 0
        try:
            return self.manifest.offsets[shape]
        except KeyError:
            raise FormatError(
                f"{os.path.join(self.path, MANIFEST)}: offsets lack the one of blocks of {list(shape)}"
            ) from None

    def _look_at(self, index: Index, extent: Extent) -> None:
        """Check that an existing block is a regular file that is long enough, inside the roots."""
        try:
            found = self.medium.status(extent.path, roots=self.roots)
        except FileNotFoundError:
            return
        if found.kind != FILE:
            raise FormatError(f"{extent.path}: a block must be a file, not {found.kind}")
        expected = extent.offset + (extent.length or 0)
        if found.size < expected:
            chunk = ",".join(map(str, index))
            raise CorruptError(
                f"{self.path}: chunk ({chunk}) in {extent.path}, bytes {extent.offset} to {expected}: the file has "
                f"{found.size:,} bytes"
            )


def distinct_lengths(axis: Axis) -> list[int]:
    """The lengths that blocks have along an axis."""
    if axis.step is not None:
        return sorted({axis.largest, axis.interval(axis.count - 1)[1] - axis.interval(axis.count - 1)[0]})
    return sorted(set(axis.lengths()))


def layout_of(schema: Schema) -> Layout:
    """Every block is an object that can be read and written in parts."""
    return Layout.raw(schema.dtype, Grid.of(schema.shape, schema.chunks), schema.order)
