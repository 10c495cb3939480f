"""Shards: find the chunks of a zarr array in shards, and place new ones there.

The lengths of encoded chunks are unknown until they are encoded. So a new shard of them is built in memory (in the
memory of its elements if it is large) and written at once. Raw chunks all have the same length: in a new array each has
its position in the file from the start and is written there when it is complete, so memory never holds a shard ::

    chunk 0 │ chunk 1 │ chunk 2 │ ... │ index        chunks in the order of the index; those outside the array are
                                                     omitted; the index is written after all chunks

With `--chunk-order` the chunks of a new shard are in that order. Readers find them through the index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError
from reblock.geometry import Grid
from reblock.geometry.chunk_order import chunk_ranks
from reblock.model.layout import most_stored_bytes, room_bytes
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.store import Bytes, Extent, Flat, Index, Scratch
from reblock.storage.codecs.coding import is_in_place
from reblock.storage.codecs.in_place import Behind, moved
from reblock.storage.media.small import read_head, read_tail
from reblock.storage.zarr.meta import Meta, Shard
from reblock.storage.zarr.nested import ABSENT

Table = npt.NDArray[np.uint64]


def by_chunk(meta: Meta) -> Meta:
    """The layout for writing: raw shards are written chunk by chunk; any other layout stays as it is."""
    layout = meta.layout
    if meta.shard is None or meta.chain:
        return meta
    return replace(meta, layout=replace(layout, objects=layout.units, indexed=False, shards=layout.objects))


def per_shard(shard: Shard) -> tuple[int, ...]:
    """The number of chunks in one shard along each of the array's axes."""
    counts = dict(zip(shard.axes, shard.counts, strict=True))
    return tuple(counts[axis] for axis in range(len(shard.axes)))


# ---------------------------------------------------------------- reading
def extents(meta: Meta, shard: Shard, path: str, data: Bytes, places: list[Index]) -> list[Extent | None]:
    """Extents of the chunks at these positions in a shard, from the stored bytes of its index."""
    table = np.empty((*shard.counts, 2), shard.index.dtype)
    shard.index.decode(data, table.reshape(-1).view(np.uint8))
    most = meta.chain.limit(meta.layout.unit_bytes)
    return [_extent(meta, path, table[tuple(place[a] for a in shard.axes)], most) for place in places]


def sizes(shard: Shard, medium: Medium, path: str, roots: Roots | None) -> list[int]:
    """Stored sizes of the chunks of a shard, from its index."""
    size, table = shard.index_bytes, np.empty((*shard.counts, 2), shard.index.dtype)
    data = read_head(medium, path, size, roots)[0] if shard.at_start else read_tail(medium, path, size, roots)
    shard.index.decode(data, table.reshape(-1).view(np.uint8))
    lengths = table[..., 1]
    found: list[int] = lengths[lengths != ABSENT].tolist()
    return found


def _extent(meta: Meta, path: str, entry: Table, most: int) -> Extent | None:
    offset, length = map(int, entry)
    if offset == length == ABSENT:
        return None
    if offset + length >= 2**63 or not 1 <= length <= most or (length != most and not meta.chain):
        raise CorruptError(f"{length:,} bytes at {offset:,} for a chunk that takes at most {most:,} bytes")
    return Extent(path, offset, length)


# ---------------------------------------------------------------- writing, a shard at once
def encode(meta: Meta, shard: Shard, data: Flat, room: Flat | None, scratch: Scratch) -> Flat:
    """Encode a shard: all chunks in memory order, including those that hold only fill.

    With `room`, which begins with the elements and is longer, the shard replaces them, one row of chunks after the
    other; otherwise it is built in scratch memory.
    """
    layout, counts = meta.layout, [per_shard(shard)[axis] for axis in meta.layout.order]
    lengths = [int(meta.schema.chunks[axis]) for axis in layout.order]  # type: ignore[arg-type]
    sides = lengths[:1] + [count * length for count, length in zip(counts[1:], lengths[1:], strict=True)]
    unit_room = scratch("unit", room_bytes(layout.unit_bytes))
    unit, in_place = unit_room[: layout.unit_bytes], is_in_place(meta.schema.codec, layout.unit_bytes)
    elements, spans = unit.view(layout.dtype).reshape(lengths), []
    made = _Beside(data.size, scratch) if room is None else Behind(room, room.size - data.size, scratch)
    end = shard.index_bytes if shard.at_start else 0
    made.put(np.zeros(end, np.uint8), 0)
    for number, row in enumerate(data.reshape(prod(counts[:1]), -1)):
        kept = row if room is None else moved(row, scratch("row", row.size))
        whole: npt.NDArray[Any] = kept.view(layout.dtype).reshape(sides)
        for rest in product(*map(range, counts[1:])):
            inside: Any = (..., *(slice(p * n, (p + 1) * n) for p, n in zip(rest, lengths[1:], strict=True)))
            elements[...] = whole[inside]
            stored = meta.chain.encode(unit, unit_room if in_place else None, scratch)
            made.put(stored, (number + 1) * row.size)
            spans.append((end, stored.size))
            end += stored.size
    table = np.array(spans, np.uint64).reshape(*counts, 2)
    index = _stored_index(shard, table.transpose(*map(layout.order.index, shard.axes), -1))
    if not shard.at_start:
        made.put(index, data.size)
    result = made.end()
    if shard.at_start:
        result[: index.size] = index
    return result


def encode_in_order(meta: Meta, shard: Shard, data: Flat, scratch: Scratch) -> Flat:
    """Encode a shard with its chunks in the array's chunk order, in memory of its own."""
    layout = meta.layout
    counts = [per_shard(shard)[axis] for axis in layout.order]
    lengths = [int(meta.schema.chunks[axis]) for axis in layout.order]  # type: ignore[arg-type]
    unit_room = scratch("unit", room_bytes(layout.unit_bytes))
    unit, in_place = unit_room[: layout.unit_bytes], is_in_place(meta.schema.codec, layout.unit_bytes)
    elements = unit.view(layout.dtype).reshape(lengths)
    whole: npt.NDArray[Any] = data.view(layout.dtype).reshape([n * c for n, c in zip(counts, lengths, strict=True)])
    ranks = chunk_ranks(per_shard(shard), meta.schema.chunk_order).transpose(layout.order)
    made = _Beside(data.size, scratch)
    end = shard.index_bytes if shard.at_start else 0
    made.put(np.zeros(end, np.uint8), 0)
    table = np.empty((*counts, 2), np.uint64)
    for place in zip(*np.unravel_index(np.argsort(ranks, axis=None), counts), strict=True):
        inside: Any = tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, lengths, strict=True))
        elements[...] = whole[inside]
        stored = meta.chain.encode(unit, unit_room if in_place else None, scratch)
        made.put(stored, 0)
        table[place] = end, stored.size
        end += stored.size
    index = _stored_index(shard, table.transpose(*map(layout.order.index, shard.axes), -1))
    if not shard.at_start:
        made.put(index, data.size)
    result = made.end()
    if shard.at_start:
        result[: index.size] = index
    return result


class _Beside:
    """A shard in memory of its own."""

    def __init__(self, size: int, scratch: Scratch) -> None:
        self._room, self._done = scratch("shard", most_stored_bytes(size)), 0

    def put(self, some: Flat, read: int) -> None:  # noqa: ARG002 - this memory is all free
        """Append a chunk; encoding may enlarge small ones considerably."""
        start, self._done = self._done, self._done + some.size
        if self._done > self._room.size:
            self._room = np.concatenate([self._room[:start], np.empty(self._done, np.uint8)])
        self._room[start : self._done] = some

    def end(self) -> Flat:
        """The whole shard."""
        return self._room[: self._done]


def _stored_index(shard: Shard, table: Table) -> Flat:
    return shard.index.encode(table.astype(shard.index.dtype).reshape(-1).view(np.uint8))


# ---------------------------------------------------------------- writing, chunk by chunk
class RawShards:
    """The positions of the raw chunks of a new array."""

    def __init__(self, meta: Meta, shard: Shard, shards: Grid, folder: str) -> None:
        self._meta, self._shard, self._shards = meta, shard, shards
        self._folder = os.path.join(folder, "")
        self._counts, self._chunks = per_shard(shard), meta.layout.units.counts
        self._size, self._index_bytes = meta.layout.unit_bytes, shard.index_bytes
        self._start = self._index_bytes if shard.at_start else 0
        self._order = meta.schema.chunk_order
        self._known_ranks: dict[tuple[int, ...], npt.NDArray[np.int64]] = {}

    def place(self, index: Index) -> Extent:
        """The extent of a chunk."""
        within = tuple(map(int.__floordiv__, index, self._counts))
        there = self._there(within)
        if self._order:
            number = int(self._ranks(there)[tuple(index[axis] % self._counts[axis] for axis in self._shard.axes)])
        else:
            number = 0
            for axis, count in zip(self._shard.axes, there, strict=True):
                number = number * count + index[axis] % self._counts[axis]
        whole = prod(there) * self._size + self._index_bytes
        return Extent(self._path(within), self._start + number * self._size, self._size, whole=whole)

    def indices(self) -> Iterator[tuple[str, int, Bytes]]:
        """Every file, with the offset and the bytes of its index."""
        known = dict[tuple[int, ...], tuple[int, Bytes]]()
        for within in self._shards.indices():
            there = self._there(within)
            if there not in known:
                known[there] = 0 if self._start else prod(there) * self._size, self._index(there).data
            yield self._path(within), *known[there]

    def _index(self, there: tuple[int, ...]) -> Flat:
        table = np.full((*self._shard.counts, 2), ABSENT, np.uint64)
        offsets = self._ranks(there).astype(np.uint64) * np.uint64(self._size)
        inside: tuple[Any, ...] = tuple(map(slice, there))
        table[(*inside, 0)], table[(*inside, 1)] = offsets + np.uint64(self._start), self._size
        return _stored_index(self._shard, table)

    def _ranks(self, there: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """The rank of each chunk of a shard, given the number of chunks along each of its axes."""
        if not self._order:
            return np.arange(prod(there), dtype=np.int64).reshape(there)
        if there not in self._known_ranks:
            axes = self._shard.axes
            counts = [there[axes.index(axis)] for axis in range(len(axes))]
            self._known_ranks[there] = chunk_ranks(counts, self._order).transpose(axes)
        return self._known_ranks[there]

    def _path(self, within: Index) -> str:
        return f"{self._folder}{self._meta.key(within)}"

    def _there(self, within: Index) -> tuple[int, ...]:
        """The number of chunks of a shard inside the array, along the shard's axes."""
        counts, chunks = self._counts, self._chunks
        return tuple([min(counts[a], chunks[a] - within[a] * counts[a]) for a in self._shard.axes])
