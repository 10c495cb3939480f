"""Blosc blocks as parts of a chunk that are read and decoded separately.

A frame is a header, a table of block starts, and the blocks, in the order in which threads finished them
(`blosc_frame`). A block is a run of the chunk's bytes before encoding. If such runs are boxes of elements (some rows or
planes of the chunk), they are units. A block after a header and a table of its own is a frame again, which Blosc
decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from reblock.errors import CorruptError, UnevenError
from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index
from reblock.storage.codecs.blosc_frame import HEADER_BYTES, BloscHeader, read_header

#: The table, rounded up to a page, must fit the memory of a decoded block.
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class BloscParts:
    """How every chunk of an array is divided."""

    shape: tuple[int, ...]
    """Elements of a part, along the array's axes."""
    counts: tuple[int, ...]
    """Parts of a chunk, along the same axes."""
    order: tuple[int, ...]
    """Order of these axes on disk, outermost first."""
    part_bytes: int
    """Bytes of a part, decoded."""

    @property
    def count(self) -> int:
        """Number of parts of a chunk."""
        return prod(self.counts)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, decoded."""
        return self.count * self.part_bytes

    @property
    def table_bytes(self) -> int:
        """Bytes of the header and the table of the parts' positions."""
        return HEADER_BYTES + 4 * self.count

    def layout(self, whole: Layout) -> Layout:
        """The layout of an array whose chunks are read in parts."""
        units = Grid.of(whole.shape, self.shape, padded=True)
        return replace(whole, units=units, indexed=True, divided=True, coding=None, stored_bytes=())

    def decoder(self, whole: Decoder | None) -> Decoder | None:
        """The decoder of parts in C, given that of whole chunks."""
        if whole is None:
            return None
        context = (*whole.context, self.count, self.part_bytes)
        return whole._replace(context=context, table_bytes=self.table_bytes, lead_bytes=HEADER_BYTES + 4)

    def extents(self, path: str, data: Bytes, places: Sequence[Index]) -> list[Extent]:
        """Extents of the parts at these positions in a chunk, from the header and the table of its frame."""
        try:
            header = read_header(bytes(data), None)
        except ValueError as error:
            raise CorruptError(f"blosc: {error}") from None
        if header.nbytes != self.chunk_bytes:
            raise CorruptError(f"blosc: {header.nbytes:,} bytes where {self.chunk_bytes:,} are expected")
        if header.block_bytes != self.part_bytes:
            raise UnevenError(
                f"{path}: blocks of {header.block_bytes:,} bytes, those of other chunks have {self.part_bytes:,}"
            )
        starts = np.frombuffer(data, "<u4", self.count, HEADER_BYTES).tolist()
        return [self._extent(path, starts, self._number(place), header) for place in places]

    def _extent(self, path: str, starts: list[int], number: int, header: BloscHeader) -> Extent:
        # The fields that a part's own header repeats.
        mask = header.flags | header.width << 8 | header.inner << 16
        if header.is_raw:
            return Extent(path, HEADER_BYTES + number * self.part_bytes, self.part_bytes, mask)
        start, length = starts[number], header.stored_bytes
        stop = min((one for one in starts if one > start), default=length)
        if not self.table_bytes <= start < stop <= length:
            raise CorruptError(f"blosc: block {number} from byte {start:,} to {stop:,} of {length:,}")
        return Extent(path, start, stop - start, mask)

    def _number(self, place: Index) -> int:
        number = 0
        for axis in self.order:
            number = number * self.counts[axis] + place[axis]
        return number

    def decode(self, whole: Callable[[Bytes, Flat], None], data: Bytes, extent: Extent, out: Flat) -> None:
        """Decode a part into exactly `out.size` bytes; `whole` decodes frames."""
        begin, mask = HEADER_BYTES + 4, extent.mask
        header = BloscHeader(mask >> 16 & 0xFF, mask & 0xFF, mask >> 8 & 0xFF, out.size, out.size, begin + len(data))
        if not header.is_raw:
            whole(header.pack() + begin.to_bytes(4, "little") + data, out)
        elif len(data) == out.size:
            out[:] = np.frombuffer(data, np.uint8)
        else:
            raise CorruptError(f"blosc: {len(data):,} bytes stored, {out.size:,} expected")


class BloscDivider:
    """How Blosc divides chunks."""

    head_bytes = HEADER_BYTES
    """Bytes of a header."""

    def __call__(self, layout: Layout, chunks: Sequence[int], head: bytes) -> BloscParts | None:
        """How a chunk with this frame header is divided; None if blocks are not boxes, or if there is only one."""
        return _find(layout, chunks, head)


def _find(layout: Layout, chunks: Sequence[int], head: bytes) -> BloscParts | None:
    try:
        header = read_header(head, None)
    except ValueError:
        return None
    if header.nbytes != layout.unit_bytes or header.block_bytes == header.nbytes:
        return None
    rest, odd = divmod(header.block_bytes, layout.itemsize)
    shape = [1] * layout.ndim
    for axis in reversed(layout.order):
        shape[axis] = min(chunks[axis], rest)
        whole, part = divmod(rest, chunks[axis])
        # A block holds whole rows, or a row holds whole blocks.
        odd = odd or (part if whole else chunks[axis] % rest)
        rest = max(whole, 1)
    if odd or rest > 1:
        return None
    counts = tuple(chunk // length for chunk, length in zip(chunks, shape, strict=True))
    parts = BloscParts(tuple(shape), counts, layout.order, header.block_bytes)
    return parts if parts.table_bytes + _PAGE_BYTES <= parts.part_bytes else None
