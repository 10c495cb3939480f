"""Datasets in other people's HDF5 files: found, described and read without HDF5 in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import ExternalError, FormatError, StorageError
from reblock.geometry import Box
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.model.store import Index
from reblock.storage.hdf5.file import failures, parts_of, signature_offset
from reblock.storage.hdf5.filters import library_note
from reblock.storage.hdf5.index import ChunkIndex, Place
from reblock.storage.hdf5.metadata import Stored, beside, describe
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.storage.hdf5.virtual import Member, SourceDataset, SourceMap, files_of
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, read_head
from reblock.storage.roots import KeyRoots

#: The most files through which links and virtual datasets may lead to a dataset.
_MANY_FILES = 8
#: The most sources of a virtual dataset that are kept open, and the bytes of a source that are read at once.
_MANY_OPEN, _PIECE_BYTES = 16, 4 << 20


def find(path: str, inner: str, roots: Roots, medium: Medium = LOCAL) -> tuple[str, str, Schema, Stored]:
    """File, name, schema and storage of a dataset, or of the only one; other files are opened if allowed."""
    return _Finder(roots, medium).find(path, inner)


def roots_of(path: str, allow: Sequence[str], medium: Medium) -> Roots:
    """Where the bytes of a file may be."""
    return medium.roots(path, allow) or KeyRoots(path)


class _Finder:
    """Finds one dataset, and the sources that it consists of."""

    def __init__(self, roots: Roots, medium: Medium) -> None:
        self._roots, self._medium = roots, medium
        self._known: dict[tuple[str, str], SourceDataset] = {}

    def find(
        self, path: str, inner: str, files: int = _MANY_FILES, above: Sequence[tuple[str, str]] = ()
    ) -> tuple[str, str, Schema, Stored]:
        """A dataset, through at most `files` more files; `above` are the virtual datasets that led to it."""
        _, size = read_head(self._medium, path, 0)
        with failures("open", path):
            if signature_offset(path, self._medium) is None:
                raise FormatError(f"{path} is not an HDF5 file: it has no HDF5 signature")
        with closing(Reader(path, self._medium)) as reader:
            facts = reader.describe(inner)
        if "link" in facts:
            name, rest, link = facts["link"]
            if not files:
                raise FormatError(f"{path}::{link} leads through more than {_MANY_FILES} files")
            other = self._resolve(beside(path, name), f"{path}::{link} is a link to another file")
            return self.find(other, rest, files - 1, above)
        name = facts["name"]
        with failures("open", path):
            schema, stored = describe(facts, path, name, size, self._roots)
        why = stored.misplaced
        if stored.parts is not None:
            here = (*above, (self._real(path), "/".join(parts_of(name))))
            where = f"{path}::{name}"
            members = tuple(self._member(part, path, where, files, here) for part in stored.parts)
            stored = replace(stored, members=members)
            why = f"it is a virtual dataset, of elements in {len(files_of(members))} files"
        if not stored.direct:
            schema = replace(schema, notes=(*schema.notes, library_note("read", stored.pipeline, why)))
        return path, name, schema, stored

    def _member(self, part: SourceMap, path: str, where: str, files: int, above: Sequence[tuple[str, str]]) -> Member:
        """A mapping with its source; a missing source is an error, not fill."""
        start = f"{where} is a virtual dataset of {part.file}::{part.name}"
        other = path if part.file == "." else self._resolve(_beside(path, part.file), start)
        key = (self._real(other), "/".join(parts_of(part.name)))
        if key in above or not files:
            raise FormatError(f"{start}, which leads back to itself or through more than {_MANY_FILES} files")
        if key not in self._known:
            try:
                at, name, schema, stored = self.find(other, part.name, files - 1, above)
            except StorageError as error:
                error.add(f"it is a source of the virtual dataset {where}")
                raise
            if stored.file:
                raise ExternalError(f"{start}, which has its elements in {stored.file}: copy it with h5repack first")
            chunk_bytes = prod(int(n) for n in schema.chunks if isinstance(n, int)) * schema.dtype.itemsize
            chunk_bytes *= stored.chunked
            self._known[key] = SourceDataset(at, name, schema.shape, chunk_bytes, schema.fill_value, stored.members)
        source = self._known[key]
        return Member(part.of(source.shape, start), source)

    def _real(self, path: str) -> str:
        return os.path.realpath(path) if self._medium.is_local else path

    def _resolve(self, path: str, start: str) -> str:
        try:
            return self._roots.resolve(path)
        except ExternalError as error:
            raise ExternalError(f"{start}: {error.message}") from None


def _beside(path: str, name: str) -> str:
    """The path of a source: like HDF5, use the virtual dataset's folder if an absolute path does not exist."""
    if "://" in path:
        return name
    named, moved = beside(path, name), beside(path, os.path.basename(name))
    return moved if os.path.isabs(name) and not exists(LOCAL, named) and exists(LOCAL, moved) else named


class Foreign:
    """A dataset that another process keeps open while it is needed."""

    def __init__(self, path: str, inner: str, medium: Medium) -> None:
        self._path, self._medium = path, medium
        self._inner = inner
        self._where = f"{path}::{inner}"
        self._reader: Reader | None = None

    def index(self, chunks: Sequence[Any], counts: Sequence[int], shift: int) -> ChunkIndex | None:
        """The whole chunk index; None if it is too long."""
        rows = self._open().sweep(len(counts), self._where)
        return None if rows is None else ChunkIndex(rows, [int(n) for n in chunks], counts, shift, self._where)

    def find(self, index: Index, shift: int) -> Place | None:
        """The position of one chunk."""
        return self._open().find(index, shift, self._where)

    def read(
        self,
        box: Box,
        out: npt.NDArray[Any],
        chunk_bytes: int,
        chunk: Index | None = None,
        steps: Sequence[int] = (),
    ) -> bool:
        """Read a box, or every n-th element, into a contiguous array; False if the named chunk is not stored."""
        return self._open().read(box, out, self._where, chunk_bytes=chunk_bytes, chunk=chunk, steps=steps)

    def stored(self, chunk: Index, run: range, chunk_bytes: int) -> tuple[int, bytes]:
        """The stored size of a chunk, and some of its bytes."""
        return self._open().stored(chunk, run, self._where, chunk_bytes=chunk_bytes)

    def close(self) -> None:
        """End the process; a new one is started when it is needed."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> Reader:
        # A process cannot be shared with a fork, and may have crashed on its file.
        if self._reader is None or not self._reader.usable:
            self._reader = Reader(self._path, self._medium)
            self._reader.reopen(self._inner)
        return self._reader


class Gathering(Foreign):
    """A virtual dataset: each source is read by itself, so that a missing one is an error."""

    def __init__(self, path: str, inner: str, members: Sequence[Member], fill: Any, medium: Medium) -> None:
        super().__init__(path, inner, medium)
        self._members = members
        self._fill = fill
        self._sources: dict[tuple[str, str], Foreign] = {}

    def read(
        self,
        box: Box,
        out: npt.NDArray[Any],
        chunk_bytes: int,  # noqa: ARG002 - only those of the sources matter
        chunk: Index | None = None,  # noqa: ARG002 - it has no chunks
        steps: Sequence[int] = (),
    ) -> bool:
        """Read a box: fill where nothing is mapped; of overlapping mappings the last one counts."""
        if any(step != 1 for step in steps):
            whole = np.empty(box.shape, out.dtype)
            self.read(box, whole, 0)
            out[...] = whole[tuple(slice(None, None, step) for step in steps)]
            return True
        out[...] = self._fill
        for member in self._members:
            # Each cut through a chunk decodes it once more.
            most = max(_PIECE_BYTES, 2 * member.source.chunk_bytes) // out.itemsize
            for here, there in member.part.pieces(box, max(most, 1)):
                piece = np.empty([len(range(s.start, s.stop, s.step or 1)) for s in there], out.dtype)
                at = Box(tuple(s.start for s in there), tuple(s.stop for s in there))
                source = self._source(member.source)
                source.read(at, piece, member.source.chunk_bytes, steps=[s.step or 1 for s in there])
                out[here] = piece.reshape(out[here].shape)
        return True

    def close(self) -> None:
        """Close all sources."""
        for source in self._sources.values():
            source.close()
        self._sources.clear()

    def _source(self, source: SourceDataset) -> Foreign:
        key = (source.path, source.name)
        found = self._sources.pop(key, None)
        found = found or reader_of(source.path, source.name, source.members, source.fill, self._medium)
        # The most recently used source is closed last.
        self._sources[key] = found
        if len(self._sources) > _MANY_OPEN:
            self._sources.pop(next(iter(self._sources))).close()
        return found


def reader_of(path: str, inner: str, members: Sequence[Member] | None, fill: Any, medium: Medium = LOCAL) -> Foreign:
    """The reader of a dataset."""
    return Foreign(path, inner, medium) if members is None else Gathering(path, inner, members, fill, medium)
