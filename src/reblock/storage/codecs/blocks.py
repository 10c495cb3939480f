"""Blocks: the parts of a chunk that Blosc encodes one by one, as units that are read and decoded without the others.

A frame of Blosc is a head, a table of places, and the blocks, in the order in which threads finished them ::

    head, 16 bytes │ place of block 0 │ place of block 1 │ ... │ block 1 │ block 0 │ ...

A block is a run of the chunk's bytes before encoding. Where such runs are boxes of elements, some rows or planes of the
chunk, they are units; a block behind a head of its own is a frame again, which Blosc decodes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from reblock.errors import CorruptError, UnevenError
from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index
from reblock.storage.codecs.chain import Chain

#: Format version, version of the inner codec, flags, bytes of an element, of all elements, of a block, of the frame.
_HEAD = struct.Struct("<BBBBIII")
#: Bytes of a head, with which the table begins.
HEAD_BYTES = _HEAD.size
_VERSION = 2
#: A flag: blocks lie there as they are.
_RAW = 0x2
#: The table and the page that it ends in must have room where a block will have it.
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Blocks:
    """How every chunk of an array is divided."""

    shape: tuple[int, ...]
    """Elements of a block, along the array's axes."""
    counts: tuple[int, ...]
    """Blocks of a chunk, along the same."""
    order: tuple[int, ...]
    """Those axes as they lie on disk, outermost first."""
    block_bytes: int
    """Of a block, decoded."""

    @property
    def count(self) -> int:
        """Blocks of a chunk."""
        return prod(self.counts)

    @property
    def chunk_bytes(self) -> int:
        """Of a chunk, decoded."""
        return self.count * self.block_bytes

    @property
    def table_bytes(self) -> int:
        """Of what tells where blocks lie: a head and a table."""
        return HEAD_BYTES + 4 * self.count

    def layout(self, whole: Layout) -> Layout:
        """The layout of an array whose chunks are read in blocks."""
        units = Grid.of(whole.shape, self.shape, padded=True)
        return replace(whole, units=units, indexed=True, divided=True, coding=None, stored_bytes=())

    def decoder(self, functions: Decoder | None) -> Decoder | None:
        """What decodes blocks in C, given what decodes frames."""
        if functions is None or functions.kind != "blosc":
            return None
        return functions._replace(kind="blosc blocks", blocks=self.count, block_bytes=self.block_bytes)

    def extents(self, path: str, data: Bytes, places: Sequence[Index]) -> list[Extent]:
        """Where blocks lie that have these places in a chunk, by the head and the table of its frame."""
        version, inner, flags, width, nbytes, block, length = _HEAD.unpack(bytes(data[:HEAD_BYTES]))
        if version != _VERSION or not width or nbytes != self.chunk_bytes:
            raise CorruptError(f"blosc: version {version} and {nbytes:,} bytes where {self.chunk_bytes:,} are expected")
        if block != self.block_bytes:
            raise UnevenError(f"{path}: blocks of {block:,} bytes, those of other chunks have {self.block_bytes:,}")
        # What a block's own head repeats.
        mask = flags | width << 8 | inner << 16
        starts = np.frombuffer(data, "<u4", self.count, HEAD_BYTES)
        return [self._extent(path, starts.tolist(), self._number(place), length, mask) for place in places]

    def _extent(self, path: str, starts: list[int], number: int, length: int, mask: int) -> Extent:
        if mask & _RAW:
            return Extent(path, HEAD_BYTES + number * self.block_bytes, self.block_bytes, mask)
        start = starts[number]
        stop = min((one for one in starts if one > start), default=length)
        if not self.table_bytes <= start < stop <= length:
            raise CorruptError(f"blosc: block {number} from byte {start:,} to {stop:,} of {length:,}")
        return Extent(path, start, stop - start, mask)

    def _number(self, place: Index) -> int:
        number = 0
        for axis in self.order:
            number = number * self.counts[axis] + place[axis]
        return number

    def decode(self, chain: Chain, data: Bytes, extent: Extent, out: Flat) -> None:
        """Decode a block into exactly `out.size` bytes."""
        if extent.mask & _RAW:
            if len(data) != out.size:
                raise CorruptError(f"blosc: {len(data):,} bytes stored, {out.size:,} expected")
            out[:] = np.frombuffer(data, np.uint8)
            return
        inner, flags, width = extent.mask >> 16 & 0xFF, extent.mask & 0xFF, extent.mask >> 8 & 0xFF
        begin = HEAD_BYTES + 4
        head = _HEAD.pack(_VERSION, inner, flags, width, out.size, out.size, begin + len(data))
        chain.decode(head + begin.to_bytes(4, "little") + data, out)


def find(layout: Layout, chunks: Sequence[int], head: bytes) -> Blocks | None:
    """How a chunk is divided whose frame begins with a head; None where blocks are no boxes, or there is only one."""
    if len(head) < HEAD_BYTES:
        return None
    version, _, _, width, nbytes, block_bytes, _ = _HEAD.unpack(head[:HEAD_BYTES])
    if version != _VERSION or not width or nbytes != layout.unit_bytes or not 0 < block_bytes < nbytes:
        return None
    rest, odd = divmod(block_bytes, layout.itemsize)
    shape = [1] * layout.ndim
    for axis in reversed(layout.order):
        shape[axis] = min(chunks[axis], rest)
        whole, part = divmod(rest, chunks[axis])
        # Blocks hold whole rows, or rows whole blocks.
        odd = odd or (part if whole else chunks[axis] % rest)
        rest = max(whole, 1)
    if odd or rest > 1:
        return None
    counts = tuple(chunk // length for chunk, length in zip(chunks, shape, strict=True))
    blocks = Blocks(tuple(shape), counts, layout.order, block_bytes)
    return blocks if blocks.table_bytes + _PAGE_BYTES <= block_bytes else None
