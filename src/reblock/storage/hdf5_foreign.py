"""Datasets in HDF5 files that somebody else made: found, described and read without HDF5 in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from reblock.errors import ExternalError, FormatError
from reblock.geometry import Box
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.model.store import Index
from reblock.storage.files import read_head
from reblock.storage.hdf5_file import failures, signature_offset
from reblock.storage.hdf5_filters import library_note
from reblock.storage.hdf5_index import ChunkIndex, Place
from reblock.storage.hdf5_metadata import Stored, beside, describe
from reblock.storage.hdf5_reader import Reader

#: Files that links may lead through on the way to a dataset.
_MANY_FILES = 8


def find(path: str, inner: str, roots: Roots, files: int = _MANY_FILES) -> tuple[str, str, Schema, Stored]:
    """File, name, schema and storage of a dataset, or of the only one; links to other files are followed if allowed."""
    _, size = read_head(path, 0)
    with failures("open", path):
        if signature_offset(path) is None:
            raise FormatError(f"{path} is not an HDF5 file: it has no HDF5 signature")
    with closing(Reader(path)) as reader:
        facts = reader.describe(inner)
    if "link" not in facts:
        with failures("open", path):
            schema, stored = describe(facts, path, facts["name"], size, roots)
        if not stored.direct:
            schema = replace(schema, notes=(*schema.notes, library_note("read", stored.pipeline, stored.misplaced)))
        return path, facts["name"], schema, stored
    name, rest, link = facts["link"]
    if not files:
        raise FormatError(f"{path}::{link} leads through more than {_MANY_FILES} files")
    try:
        other = roots.resolve(beside(path, name))
    except ExternalError as error:
        raise ExternalError(f"{path}::{link} is a link to another file: {error}") from None
    return find(other, rest, roots, files - 1)


class Foreign:
    """A dataset that another process has open, while it is needed."""

    def __init__(self, path: str, inner: str) -> None:
        self._path = path
        self._inner = inner
        self._where = f"{path}::{inner}"
        self._reader: Reader | None = None

    def index(self, chunks: Sequence[Any], counts: Sequence[int], shift: int) -> ChunkIndex | None:
        """The whole chunk index; None where that is too long."""
        rows = self._open().sweep(len(counts), self._where)
        return None if rows is None else ChunkIndex(rows, [int(n) for n in chunks], counts, shift, self._where)

    def find(self, index: Index, shift: int) -> Place | None:
        """Where one chunk lies."""
        return self._open().find(index, shift, self._where)

    def read(self, box: Box, out: npt.NDArray[Any], chunk_bytes: int, chunk: Index | None = None) -> bool:
        """Read a box into a contiguous array; False where a chunk is named that is not stored."""
        return self._open().read(box, out, self._where, chunk_bytes=chunk_bytes, chunk=chunk)

    def close(self) -> None:
        """Let the process go; it is asked for again when it is needed."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> Reader:
        # A process cannot be shared with a fork, and does not survive a file that crashes it.
        if self._reader is None or not self._reader.usable:
            self._reader = Reader(self._path)
            self._reader.reopen(self._inner)
        return self._reader
