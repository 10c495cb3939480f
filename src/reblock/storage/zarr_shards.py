"""Shards: how the chunks of a zarr array lie together in files, and how they are found and placed there.

Encoded chunks have lengths that nobody knows before, so a new shard of them is made in memory and written at once.
Raw chunks all have one length: in a new array each has its place in the file from the start, is written there when it
is complete, and memory never holds a shard ::

    chunk 0 │ chunk 1 │ chunk 2 │ ... │ index        chunks in the order of the index; those that lie outside of the
                                                     array are left out; the index is written when all chunks are
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
from reblock.model.layout import most_stored_bytes
from reblock.model.store import Bytes, Extent, Flat, Index, Scratch
from reblock.storage.zarr_meta import Meta, Shard
from reblock.storage.zarr_nested import ABSENT

Table = npt.NDArray[np.uint64]


def by_chunk(meta: Meta) -> Meta:
    """A new array whose shards are raw is written chunk by chunk; any other as it is."""
    layout = meta.layout
    if meta.shard is None or meta.chain:
        return meta
    return replace(meta, layout=replace(layout, objects=layout.units, indexed=False, shards=layout.objects))


def per_shard(shard: Shard) -> tuple[int, ...]:
    """Chunks along each of the array's axes in one shard."""
    counts = dict(zip(shard.axes, shard.counts, strict=True))
    return tuple(counts[axis] for axis in range(len(shard.axes)))


# ---------------------------------------------------------------- reading
def extents(meta: Meta, shard: Shard, path: str, data: Bytes, places: list[Index]) -> list[Extent | None]:
    """Where chunks lie that have these places in a shard, by the stored bytes of its index."""
    table = np.empty((*shard.counts, 2), shard.index.dtype)
    shard.index.decode(data, table.reshape(-1).view(np.uint8))
    most = meta.chain.limit(meta.layout.unit_bytes)
    return [_extent(meta, path, table[tuple(place[a] for a in shard.axes)], most) for place in places]


def _extent(meta: Meta, path: str, entry: Table, most: int) -> Extent | None:
    offset, length = map(int, entry)
    if offset == length == ABSENT:
        return None
    if offset + length >= 2**63 or not 1 <= length <= most or (length != most and not meta.chain):
        raise CorruptError(f"{length:,} bytes at {offset:,} for a chunk that takes {most:,} bytes at the most")
    return Extent(path, offset, length)


# ---------------------------------------------------------------- writing, a shard at once
def encode(meta: Meta, shard: Shard, data: Flat, scratch: Scratch) -> Flat:
    """Every chunk in the order of the index, none left out: which are fill only their bits can say."""
    order, counts = meta.layout.order, per_shard(shard)
    lengths = [int(meta.schema.chunks[axis]) for axis in order]  # type: ignore[arg-type]
    sides = [counts[axis] * length for axis, length in zip(order, lengths, strict=True)]
    whole: npt.NDArray[Any] = data.view(meta.layout.dtype).reshape(sides)
    table = np.empty((*shard.counts, 2), np.uint64)
    unit = scratch("unit", meta.layout.unit_bytes)[: meta.layout.unit_bytes]
    elements = unit.view(meta.layout.dtype).reshape(lengths)
    out, end = scratch("shard", most_stored_bytes(data.size) + shard.index_bytes), 0
    if shard.at_start:
        end = shard.index_bytes
    for position in product(*map(range, shard.counts)):
        place = dict(zip(shard.axes, position, strict=True))
        corner = [place[axis] * n for axis, n in zip(order, lengths, strict=True)]
        inside: tuple[Any, ...] = tuple(slice(a, a + n) for a, n in zip(corner, lengths, strict=True))
        elements[...] = whole[(*inside, ...)]
        stored = meta.chain.encode(unit, scratch=scratch)
        table[position] = end, stored.size
        if end + stored.size + shard.index_bytes > out.size:
            out = np.concatenate([out[:end], np.empty(out.size, np.uint8)])
        out[end : end + stored.size] = stored
        end += stored.size
    index = np.frombuffer(_stored_index(shard, table), np.uint8)
    if shard.at_start:
        out[: index.size] = index
        return out[:end]
    out[end : end + index.size] = index
    return out[: end + index.size]


def _stored_index(shard: Shard, table: Table) -> Bytes:
    return shard.index.encode(table.astype(shard.index.dtype).reshape(-1).view(np.uint8)).data


# ---------------------------------------------------------------- writing, chunk by chunk
class RawShards:
    """Places of the raw chunks of a new array."""

    def __init__(self, meta: Meta, shard: Shard, shards: Grid, folder: str) -> None:
        self._meta, self._shard, self._shards = meta, shard, shards
        self._folder = os.path.join(folder, "")
        self._counts, self._chunks = per_shard(shard), meta.layout.units.counts
        self._size, self._index_bytes = meta.layout.unit_bytes, shard.index_bytes
        self._start = self._index_bytes if shard.at_start else 0

    def place(self, index: Index) -> Extent:
        """Where a chunk goes."""
        within = tuple(map(int.__floordiv__, index, self._counts))
        there = self._there(within)
        number = 0
        for axis, count in zip(self._shard.axes, there, strict=True):
            number = number * count + index[axis] % self._counts[axis]
        whole = prod(there) * self._size + self._index_bytes
        return Extent(self._path(within), self._start + number * self._size, self._size, whole=whole)

    def indices(self) -> Iterator[tuple[str, int, Bytes]]:
        """All files, and the offset and the bytes of the index of each."""
        known = dict[tuple[int, ...], tuple[int, Bytes]]()
        for within in self._shards.indices():
            there = self._there(within)
            if there not in known:
                known[there] = 0 if self._start else prod(there) * self._size, self._index(there)
            yield self._path(within), *known[there]

    def _index(self, there: tuple[int, ...]) -> Bytes:
        table = np.full((*self._shard.counts, 2), ABSENT, np.uint64)
        offsets = np.arange(prod(there), dtype=np.uint64).reshape(there) * np.uint64(self._size)
        inside: tuple[Any, ...] = tuple(map(slice, there))
        table[(*inside, 0)], table[(*inside, 1)] = offsets + np.uint64(self._start), self._size
        return _stored_index(self._shard, table)

    def _path(self, within: Index) -> str:
        return f"{self._folder}{self._meta.key(within)}"

    def _there(self, within: Index) -> tuple[int, ...]:
        """Chunks of a shard that meet the array, along the shard's axes."""
        counts, chunks = self._counts, self._chunks
        return tuple([min(counts[a], chunks[a] - within[a] * counts[a]) for a in self._shard.axes])
