"""One .nii.gz volume: read through an index, and written as gzip members that are put in order at the end.

::

    reading    layers of the file, in any order ← indexed_gzip
    writing    layers in any order → encoded in threads → `PATH.members`, with their positions
               commit: header, then all members in order → `PATH`

A gzip file may consist of several members; every reader of gzip joins them. So layers are encoded independently of each
other, and a killed run goes on with those that it has.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, StorageError
from reblock.geometry import Box, Grid
from reblock.model.codec import Codec
from reblock.model.layout import Coding, Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Read, Scratch, TransferMode, fresh
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.coding import coding
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_head
from reblock.storage.nifti.adapt import preamble_of
from reblock.storage.nifti.inflate import Inflated, index_bytes

#: Bytes of a layer, about.
LAYER_BYTES = 4 << 20
#: The usual codec.
USUAL = Codec.parse("gzip:6")
#: Before each member while a file is being written: a mark, the position of the layer, and the length.
_RECORD = struct.Struct("<8s7qq")
_MARK = b"reblock\1"
#: The field in the header of the first member that holds the level.
_FIELD = b"RB\1\0"
_COPY_BYTES = 1 << 20
#: Attributes that are not pickled.
_FLEETING = ("_lock", "_inflated", "_spool")


class NiftiGzStore:
    """One .nii.gz file."""

    format, fills, encoding = "nifti_gz", False, ""
    decoder: Decoder | None = None

    def __init__(
        self,
        path: str,
        schema: Schema,
        offset: int,
        layer_bytes: int,
        roots: Roots | None = None,
        medium: Medium = LOCAL,
        spool: Spool | None = None,
    ) -> None:
        """`spool` is given for a file that is being written."""
        self.path, self.location, self.schema, self.roots, self.medium = path, path, schema, roots, medium
        self.layout = compressed_layout(schema, layer_bytes)
        self._offset = offset
        self._chain = Chain(schema.codec, schema.dtype)
        self._reset(spool)

    def _reset(self, spool: Spool | None = None) -> None:
        self._lock, self._spool = Lock(), spool
        self._inflated: Inflated | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in _FLEETING}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    @property
    def reads(self) -> TransferMode:
        return TransferMode.BOX

    @property
    def writes(self) -> TransferMode:
        return TransferMode.UNIT

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    # ---------------------------------------------------------------- reading
    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:
        """Read the run of bytes from the first to the last element of a box of one layer."""
        if not box.size:
            return True
        layout = self.layout
        index = tuple(axis.index(start) for axis, start in zip(layout.objects.axes, box.start, strict=True))
        layer = layout.objects.box(index)
        data = np.empty(layer.size * layout.itemsize, np.uint8)
        if self._spool is not None:
            self._chain.decode(self._spool.read(index), data)
        else:
            self._open().read(data.data, self._offset + _first(layer, layout.shape) * layout.itemsize)
        array = data.view(layout.dtype).reshape(layer.shape[::-1]).transpose(layout.order)
        out[...] = array[box.within(layer).slices]
        return True

    def _open(self) -> Inflated:
        with self._lock:
            if self._inflated is None:
                size = self._offset + self.layout.nbytes
                self._inflated = Inflated(self.medium, self.path, size, self.roots)
            return self._inflated

    # ---------------------------------------------------------------- writing
    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        """One gzip member."""
        return self._chain.encode(data, room, scratch)

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:  # noqa: ARG002
        """The elements of one member."""
        self._chain.decode(data, out, scratch)

    def write_unit(self, index: Index, data: Bytes) -> None:
        """Keep an encoded layer."""
        self._writing().add(index, data)

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:  # noqa: ARG002 - never called
        """Not needed: layers are written."""
        raise StorageError(f"{self.path}: layers are written whole")

    def _writing(self) -> Spool:
        if self._spool is None:
            raise StorageError(f"{self.path} is not being written")
        return self._spool

    def checkpoint(self) -> None:
        """Make the layers durable."""
        self._writing().sync()

    def commit(self, record: Record = NO_RECORD) -> None:  # noqa: ARG002 - a header has no place for it
        """Put all layers in order behind the header."""
        spool = self._writing()
        spool.finish(self.path, first_member(self.schema), self.layout.objects)
        self._spool = None

    def abort(self) -> None:
        """Let go of the file."""
        if self._inflated is not None:
            self._inflated.close()
            self._inflated = None

    # ---------------------------------------------------------------- not by extent
    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - never called
        """Layers are found through an index only."""
        raise StorageError(f"{self.path}: layers of a gzip file have no places of their own")

    def place(self, index: Index) -> Extent:
        """The place of a layer is known at the end only."""
        raise StorageError(f"{self.path}: the place of layer {index} is known when all are written")

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - never called
        """Empty: layers share one file."""
        return b""


class Spool:
    """Members of a file that is being written, in the order in which they came."""

    def __init__(self, path: str, medium: Medium, ndim: int) -> None:
        self._key, self._medium, self._ndim = spool_of(path), medium, ndim
        self._places: dict[Index, tuple[int, int]] = {}
        self._stop = 0
        self._lock = Lock()

    def find(self) -> None:
        """Find the members that an earlier attempt has kept; what follows the last whole one is written again."""
        with disk_errors("read", self._key), self._medium.reader(self._key) as handle:
            size, head = handle.size(), bytearray(_RECORD.size)
            while self._stop + len(head) <= size:
                handle.read(memoryview(head), self._stop)
                mark, *index, length = _RECORD.unpack(head)
                if mark != _MARK or not 0 < length <= size - self._stop - len(head):
                    break
                self._places[tuple(index[: self._ndim])] = (self._stop + len(head), length)
                self._stop += len(head) + length

    def add(self, index: Index, data: Bytes) -> None:
        """Append a member."""
        view = memoryview(data).cast("B")
        head = _RECORD.pack(_MARK, *index, *[0] * (7 - len(index)), len(view))
        with self._lock, disk_errors("write", self._key), self._medium.writer(self._key) as handle:
            handle.write([head, view], self._stop)
            self._places[index] = (self._stop + len(head), len(view))
            self._stop += len(head) + len(view)

    def read(self, index: Index) -> bytes:
        """A member that was kept."""
        if index not in self._places:
            raise CorruptError(f"{self._key}: layer {index} is missing")
        offset, length = self._places[index]
        data = bytearray(length)
        with disk_errors("read", self._key), self._medium.reader(self._key) as handle:
            if handle.read(memoryview(data), offset) != length:
                raise CorruptError(f"{self._key}: layer {index} has fewer than {length:,} bytes")
        return bytes(data)

    def sync(self) -> None:
        """Make all members durable."""
        self._medium.sync(self._key)

    def finish(self, path: str, first: bytes, layers: Grid) -> None:
        """Write all members in order behind the first one, and remove this file."""
        order = sorted(layers.indices(), key=lambda index: index[::-1])
        if missing := [index for index in order if index not in self._places]:
            raise StorageError(f"{path}: layer {missing[0]} and {len(missing) - 1} others were never written")
        place, buffer = len(first), bytearray(_COPY_BYTES)
        with (
            disk_errors("write", path),
            self._medium.reader(self._key) as source,
            self._medium.writer(path) as target,
        ):
            target.write([first], 0)
            for index in order:
                offset, left = self._places[index]
                while left:
                    view = memoryview(buffer)[: min(left, len(buffer))]
                    if source.read(view, offset) != len(view):
                        raise CorruptError(f"{self._key}: it became shorter while it was read")
                    target.write([view], place)
                    offset, place, left = offset + len(view), place + len(view), left - len(view)
            target.resize(place)
        self._medium.sync(path)
        self._medium.sync_name(path)
        self._medium.remove(self._key)


def spool_of(path: str) -> str:
    """The file with the members of a file that is being written."""
    return f"{path}.members"


def compressed_layout(schema: Schema, layer_bytes: int) -> Layout:
    """Layers are objects, encoded one by one; reading them takes the index of the whole file as well."""
    grid = Grid.of(schema.shape, layers_of(schema.shape, schema.dtype.itemsize, layer_bytes))
    layout = Layout(
        schema.dtype, grid, grid, schema.order, str(schema.codec), partial_reads=False, partial_writes=False
    )
    taken = coding(schema.codec, schema.dtype, layout.unit_bytes) or Coding(0, 0)
    more = layout.unit_bytes + index_bytes(layout.nbytes)
    return replace(layout, coding=replace(taken, decoding_bytes=taken.decoding_bytes + more))


def layers_of(shape: tuple[int, ...], itemsize: int, layer_bytes: int) -> tuple[int, ...]:
    """Lengths of layers: whole along the fastest axes, single along the slowest, and cut along one between."""
    lengths, size = [], itemsize
    for length in shape:
        step = min(max(length, 1), max(layer_bytes // size, 1))
        lengths.append(step)
        # Behind the first cut, everything is single, or a layer would not be one run of bytes.
        size = size * step if step >= length else layer_bytes + 1
    return tuple(lengths)


def _first(layer: Box, shape: tuple[int, ...]) -> int:
    """The number of elements before a layer in the file."""
    return sum(start * prod(shape[:axis]) for axis, start in enumerate(layer.start))


# ---------------------------------------------------------------- the first member
def first_member(schema: Schema) -> bytes:
    """The gzip member with the header; a field that others skip holds the level."""
    preamble, level = preamble_of(schema), schema.codec.stages[0].get("level", 6)
    encoder = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = encoder.compress(preamble) + encoder.flush()
    field = _FIELD + bytes([level])
    head = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff" + struct.pack("<H", len(field)) + field
    return head + body + struct.pack("<II", zlib.crc32(preamble), len(preamble))


def codec_in(first: bytes) -> Codec:
    """The codec that the first bytes of a file state; the usual one if they state none."""
    if first[:4] == b"\x1f\x8b\x08\x04" and first[12:16] == _FIELD and first[16] in range(10):
        return Codec.parse(f"gzip:{first[16]}")
    return USUAL


def check_first_member(medium: Medium, path: str, schema: Schema) -> None:
    """CorruptError if a file is not the one that was being written."""
    wanted = first_member(schema)
    if read_head(medium, path, len(wanted))[0] != wanted:
        raise CorruptError(f"{path}: not the header of the array that was being written")
