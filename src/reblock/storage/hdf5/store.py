"""One dataset of an HDF5 file: where its bytes are, what they mean, and what HDF5 itself must read or write."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, StorageError
from reblock.geometry import Box, Grid
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Read, Scratch, TransferMode, fresh
from reblock.storage.codecs.coding import coding
from reblock.storage.hdf5.check import find_disagreement
from reblock.storage.hdf5.file import failures, open_file, parts_of, resolve
from reblock.storage.hdf5.filters import (
    decode,
    decoder_of,
    encode,
    is_ours,
    library_note,
    missing_filters,
    name_encoding,
)
from reblock.storage.hdf5.fingerprint import remove_fingerprint
from reblock.storage.hdf5.foreign import Foreign, reader_of
from reblock.storage.hdf5.index import ChunkIndex, Place, ask_index, read_index
from reblock.storage.hdf5.metadata import Stored, write_record
from reblock.storage.hdf5.redo import CheckpointFile, open_checkpoint_file, raise_disk_errors, remove_redo
from reblock.storage.hdf5.virtual import files_of
from reblock.storage.media.local import LOCAL

#: Attributes that are not pickled: handles, and what is quickly read again.
_FLEETING = ("_lock", "_file", "_foreign", "_checkpoint_file", "_dataset", "_process", "_index", "_asks")


class Hdf5Store:
    """One dataset of an HDF5 file."""

    format = "hdf5"

    def __init__(
        self,
        path: str,
        inner: str,
        schema: Schema,
        stored: Stored,
        checkpoint_file: CheckpointFile | None = None,
        file: Any = None,
        roots: Roots | None = None,
        medium: Medium = LOCAL,
    ) -> None:
        """`checkpoint_file` and `file` are the open handles of a dataset that HDF5 itself writes.

        Without `roots` the file is one that we made, and HDF5 may read it in this process.
        """
        self.path = path
        self.inner = inner
        self.schema = schema
        self.layout = layout_of(schema)
        self.stored = stored
        self.roots = roots
        self.medium = medium
        self._object_bytes = self.layout.object_bytes
        # HDF5's statements about other people's files must be checked.
        self._checked = roots is None
        self.location = f"{path}::{inner}"
        self._mode = "r" if file is None else "r+"
        self._reset(checkpoint_file, file)

    def _reset(self, checkpoint_file: CheckpointFile | None = None, file: Any = None) -> None:
        self._lock = threading.RLock()
        self._checkpoint_file = checkpoint_file
        self._file = file
        self._foreign: Foreign | None = None
        if self.roots is not None:
            members, fill = self.stored.members, self.schema.fill_value
            self._foreign = reader_of(self.path, self.inner, members, fill, self.medium)
        self._dataset = None if file is None else file[self.inner]
        self._process = os.getpid()
        self._index: ChunkIndex | None = None
        self._asks = False

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in _FLEETING}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    # ---------------------------------------------------------------- what it is
    @property
    def reads(self) -> TransferMode:
        self._check()
        return TransferMode.EXTENT if self.stored.direct else TransferMode.BOX

    @property
    def writes(self) -> TransferMode:
        if not self.stored.pipeline:
            return TransferMode.EXTENT
        return TransferMode.UNIT if is_ours(self.stored.pipeline) else TransferMode.BOX

    @property
    def fills(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        """The filters, if we apply them."""
        return name_encoding(self.stored.pipeline) if self.reads is TransferMode.EXTENT else ""

    @property
    def decoder(self) -> Decoder | None:
        """Undoes the filters in C, for chunks that skipped none."""
        return decoder_of(self.stored.pipeline, self.layout.itemsize)

    @property
    def described_by(self) -> Sequence[str]:
        others = {self.stored.file} if self.stored.file else files_of(self.stored.members)
        return (self.path, *sorted(others - {self.path}))

    # ---------------------------------------------------------------- where bytes lie
    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002
        """Extents of chunks; each chunk is its own unit."""
        return [self._extent(unit) for unit in units]

    def measured(self) -> Hdf5Store:
        """The same store with the stored sizes of chunks, from the index that a run needs anyway."""
        if self.reads is TransferMode.EXTENT and self.layout.is_measurable and self.stored.chunked:
            self._find((0,) * self.layout.ndim)
            if self._index is not None:
                self.layout = self.layout.measured(self._index.sizes)
        return self

    def place(self, index: Index) -> Extent:
        """The extent of a new object, which was allocated at creation."""
        extent = self._extent(index) if self.writes is TransferMode.EXTENT else None
        if extent is None:
            raise StorageError(f"{self.location}: HDF5 itself places object {index}")
        return extent

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002
        """Empty: objects share one file."""
        return b""

    def _extent(self, index: Index) -> Extent | None:
        size = self._object_bytes
        if not self.stored.chunked:
            where = self.stored.file or self.path
            return None if self.stored.offset is None else Extent(where, self.stored.offset, size)
        if self.stored.misplaced:
            raise StorageError(f"{self.location}: only HDF5 itself finds chunk {index}, since {self.stored.misplaced}")
        found = self._find(index)
        if found is None:
            return None
        offset, length, mask = found
        if self.stored.raw_edges and self.layout.objects.stored(index) != self.layout.objects.box(index):
            mask = 0xFFFF_FFFF
        # Filters shrink a chunk or add a little; an absurd length would cost memory before it fails.
        likely = length <= 2 * size + (1 << 16) if self.stored.pipeline else length == size
        if not likely or offset + length >= 1 << 63:
            raise CorruptError(
                f"{self.location}: chunk {index} has {length} bytes at {offset}; its elements take {size} bytes"
            )
        return Extent(self.path, offset, length, mask)

    def _find(self, index: Index) -> Place | None:
        with self._calling("read the chunk index of", CorruptError):
            if self._index is None and not self._asks:
                counts, shift = self.layout.objects.counts, self.stored.shift
                if self._foreign is None:
                    self._index = read_index(self._open(), counts, shift, self.location)
                else:
                    self._index = self._foreign.index(self.schema.chunks, counts, shift)
                self._asks = self._index is None
                # The check that comes first needs the file, too, and then closes it.
                if not self._asks and self.stored.direct and self._mode == "r" and self._checked:
                    self._close()
            if self._index is not None:
                return self._index.find(index)
            if self._foreign is None:
                return ask_index(self._open(), index, self.stored.shift)
            return self._foreign.find(index, self.stored.shift)

    def _check(self) -> None:
        """Compare some chunks with what HDF5 reads; if one differs, HDF5 reads all of them."""
        with self._lock:
            if self._checked:
                return
            if self._foreign is not None and self.stored.direct and not self.stored.file:
                if self.stored.chunked:
                    self._find((0,) * self.layout.ndim)
                decoded = not missing_filters(self.stored.pipeline)
                wrong = find_disagreement(self, self._index, self._foreign, decoded=decoded)
                self._foreign.close()
                if wrong:
                    wrong = f"the places of chunks that it reports are not used, since {wrong}"
                    self.stored = replace(self.stored, direct=False, misplaced=wrong)
                    note = library_note("read", self.stored.pipeline, wrong)
                    self.schema = replace(self.schema, notes=(*self.schema.notes, note))
            self._checked = True

    # ---------------------------------------------------------------- what bytes mean
    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        """Undo the filters; the error names the dataset and the byte range."""
        try:
            decode(data, self.stored.pipeline, extent.mask, out, scratch)
        except CorruptError as error:
            where = f"{extent.length} bytes at {extent.offset}"
            raise CorruptError(f"{self.location}: {error} ({where})") from None

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        """Apply the filters."""
        return encode(data, self.stored.pipeline, room, scratch)

    # ---------------------------------------------------------------- through h5py
    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:
        """Read a box with the library's filters and conversions; False if its chunk is not stored."""
        if not box.size:
            return True
        index = self._chunk(box) if self.stored.chunked else None
        with self._calling("read", CorruptError):
            fits = out.flags.c_contiguous and out.dtype == self.layout.dtype
            target = out if fits else np.empty(out.shape, self.layout.dtype)
            if self._foreign is None:
                self._open().read_direct(target, source_sel=box.slices or ())
                there = index is None or self._find(index) is not None
            else:
                try:
                    there = self._foreign.read(box, target, self._object_bytes, index)
                except CorruptError as error:
                    raise self._corrupt(index, error) from None
        if target is not out:
            out[...] = target
        return there

    def _chunk(self, box: Box) -> Index:
        """The chunk in which a box begins."""
        return tuple(axis.index(start) for axis, start in zip(self.layout.objects.axes, box.start, strict=True))

    def _corrupt(self, index: Index | None, error: CorruptError) -> CorruptError:
        """The error with the chunk in which a box begins, if chunks are stored separately."""
        found = None if index is None or self.stored.misplaced else self._find(index)
        if index is None or found is None:
            return error
        chunk, (offset, length, _) = ",".join(map(str, index)), found
        return CorruptError(
            f"{self.location}: chunk ({chunk}) in {self.path}, bytes {offset} to {offset + length}: {error}"
        )

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:
        """Write a box with the library's filters."""
        if not box.size:
            return
        with self._calling("write"):
            source = np.ascontiguousarray(data, self.layout.dtype)
            self._open().write_direct(source, dest_sel=box.slices or ())

    def write_unit(self, index: Index, data: Bytes) -> None:
        """Pass an encoded chunk to HDF5, which places it."""
        first = tuple(axis.stored(i)[0] for axis, i in zip(self.layout.objects.axes, index, strict=True))
        with self._calling("write"):
            dataset = self._open()
            there = (
                ask_index(dataset, index, self.stored.shift)
                if self._checkpoint_file and self._checkpoint_file.found
                else None
            )
            if self._checkpoint_file and there is not None and there[1:] == (len(data), 0):
                # An earlier attempt had written the chunk, but not its journal line.
                self._checkpoint_file.overwrite(data, there[0])
                return
            dataset.id.write_direct_chunk(first, data)
            self._index = None

    @contextmanager
    def _calling(self, doing: str, kind: type[StorageError] = StorageError) -> Iterator[None]:
        """Call HDF5, one thread at a time."""
        with self._lock, failures(doing, self.location, kind), raise_disk_errors(lambda: self._checkpoint_file):
            yield

    def _open(self) -> Any:
        """The dataset, opened in this process if necessary: a handle does not survive a fork or a pickle."""
        if self._dataset is None or self._process != os.getpid():
            self._process = os.getpid()
            if self._mode == "r":
                self._file = open_file(self.path, self._mode)
            else:
                self._checkpoint_file = CheckpointFile(self.path, new=False)
                self._file = open_checkpoint_file(self._checkpoint_file)
            self._dataset = resolve(self._file, self.path, parts_of(self.inner))
        return self._dataset

    def _close(self) -> None:
        if self._foreign is not None:
            self._foreign.close()
        file, self._file, self._dataset = self._file, None, None
        if file is not None and self._process == os.getpid():
            file.close()

    # ---------------------------------------------------------------- the end
    def checkpoint(self) -> None:
        """Flush HDF5's buffers, and make the file durable in that state."""
        with self._calling("flush"):
            if self._file is not None:
                self._file.flush()
            if self._checkpoint_file is not None:
                self._checkpoint_file.checkpoint()
        if self._checkpoint_file is None:
            self.medium.sync(self.path)

    def commit(self, record: Record = NO_RECORD) -> None:
        """Write the record, make the file durable and close it; other metadata is complete since creation."""
        with self._calling("close"):
            remove_fingerprint(self.path)
            if record:
                if self._checkpoint_file is None:
                    # Also through a checkpoint file, so that a kill does not damage what the engine has written.
                    self._close()
                    self._mode = "r+"
                write_record(self._open(), record)
            self._close()
            if self._checkpoint_file is not None:
                self._checkpoint_file.checkpoint()
                self._checkpoint_file.close()
                self._checkpoint_file = None
                remove_redo(self.path)
        self.medium.sync(self.path)

    def abort(self) -> None:
        """Close, and discard everything after the last checkpoint."""
        with self._lock, failures("close", self.location, StorageError):
            try:
                self._close()
            finally:
                if self._checkpoint_file is not None:
                    self._checkpoint_file.close()
                    self._checkpoint_file = None


def layout_of(schema: Schema) -> Layout:
    """Chunks are objects, and the last ones are padded."""
    grid = Grid.of(schema.shape, schema.chunks, padded=True)
    raw = not schema.codec
    codec = "" if raw else str(schema.codec)
    layout = Layout(schema.dtype, grid, grid, schema.order, codec, partial_reads=raw, partial_writes=raw)
    return replace(layout, coding=coding(schema.codec, schema.dtype, layout.unit_bytes))
