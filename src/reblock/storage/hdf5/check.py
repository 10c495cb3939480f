"""Check HDF5's chunk index: read some chunks at the reported positions and through HDF5, and compare.

HDF5 2.0 and older report the chunks of one kind of index at the positions of others, in range and on the grid, so only
the elements show the mistake. Those of a few chunks are compared ::

    F a . .      F, L   first and last, which most mistakes leave in place
    a r . .      a      second along each axis, which a swap of axes moves
    . . . r      r      random
    . . . L      and the longest, the shortest, and one that is reported as missing

A run of elements of each is enough. For long chunks the stored bytes are compared, because decoding takes time and
might need too much memory. Chunks with equal elements cannot reveal a mistake, so more are compared if all are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from random import Random
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, StorageError
from reblock.geometry import Box
from reblock.model.medium import Medium
from reblock.model.store import Extent, Index, Store
from reblock.storage.hdf5.index import ChunkIndex, index_of
from reblock.storage.media.files import disk_errors

#: The most bytes of a chunk that are compared; of a decoded chunk at most a quarter, so that the check takes no more
#: memory than decoding it.
_RUN_BYTES = 64 << 10
#: Chunks that are always compared, even if they are long.
_FEW = 4
#: Further chunks may have at most this share of the array, or this many bytes.
_SHARE, _LITTLE_BYTES = 64, 1 << 20
#: The most chunks that are compared; four times as many if they are alike.
_MANY = 12
#: The longest chunk that is decoded, and the longest of which more than one is decoded.
_DECODED_BYTES, _SHORT_BYTES = 8 << 20, 128 << 10


class Library(Protocol):
    """A dataset that is open in HDF5."""

    def read(self, box: Box, out: npt.NDArray[Any], chunk_bytes: int) -> object:
        """Read a box."""

    def stored(self, chunk: Index, run: range, chunk_bytes: int) -> tuple[int, bytes]:
        """The stored size of a chunk, and some of its bytes."""


def find_disagreement(store: Store, index: ChunkIndex | None, library: Library, *, decoded: bool = True) -> str:
    """The first compared chunk that HDF5 reads differently, in words; empty = none.

    Stored bytes are compared unless HDF5 has all filters, so that chunks can be compared `decoded`.
    """
    layout, random = store.layout, Random(0)  # noqa: S311 - the same chunks each time
    if not prod(layout.shape):
        return ""
    each = layout.object_bytes if layout.encoded else min(layout.object_bytes, _RUN_BYTES)
    most = max(_FEW, min(_MANY, max(layout.nbytes // _SHARE, _LITTLE_BYTES) // each))
    left = 0 if layout.object_bytes > _DECODED_BYTES else 1 if layout.object_bytes > _SHORT_BYTES else 4 * _MANY
    left = left if decoded else 0
    absent = 0
    seen: set[int] = set()
    for number, chunk in enumerate(_pick(layout.objects.counts, index, random)):
        if number >= most and (len(seen) > 1 or number >= 4 * most):
            break
        try:
            extent = store.extents(chunk, [chunk], _no_index)[0]
            absent += extent is None
            if extent is None and absent > _FEW:
                continue
            if extent and layout.encoded and left <= 0:
                words, content = _compare_stored(store, chunk, extent, library, random)
            else:
                words, content = _compare_elements(store, chunk, extent, library, random)
                left -= 1
        except StorageError:
            # Damage is reported by the run, with its position, if the chunk is needed.
            continue
        if words:
            return f"chunk ({','.join(map(str, chunk))}) {words}"
        seen.add(hash(content))
    return ""


def _compare_elements(
    store: Store, chunk: Index, extent: Extent | None, library: Library, random: Random
) -> tuple[str, bytes]:
    """The difference of a chunk, in words or empty, and the compared elements."""
    box = _run_of(store, chunk, random)
    ours = _read(store, chunk, extent, box)
    theirs = np.zeros(box.shape, store.layout.dtype)
    try:
        library.read(box, theirs, store.layout.object_bytes)
    except CorruptError as error:
        return f"cannot be read by it: {error}", ours
    return "" if _same(ours, theirs) else "has other elements than it reads", ours


def _compare_stored(store: Store, chunk: Index, extent: Extent, library: Library, random: Random) -> tuple[str, bytes]:
    """The same for the stored bytes."""
    length = extent.length or 0
    start = random.randint(0, max(length - _RUN_BYTES, 0))
    ours = _bytes_at(store.medium, extent.path, extent.offset + start, min(length, _RUN_BYTES))
    try:
        size, theirs = library.stored(chunk, range(start, start + len(ours)), store.layout.object_bytes)
    except CorruptError as error:
        return f"cannot be read by it: {error}", ours
    return "" if (size, theirs) == (length, ours) else "has other bytes than it reads", ours


def _same(ours: bytes, theirs: npt.NDArray[Any]) -> bool:
    if ours == theirs.tobytes():
        return True
    # Long doubles have padding bytes.
    long = theirs.dtype.kind in "fc" and theirs.dtype.itemsize > 8 * (1 + (theirs.dtype.kind == "c"))
    return long and np.array_equal(np.frombuffer(ours, theirs.dtype), theirs.reshape(-1), equal_nan=True)


def _pick(counts: Sequence[int], index: ChunkIndex | None, random: Random) -> Iterator[Index]:
    """Chunks to compare, each once, the most revealing first."""
    first, last = (0,) * len(counts), tuple(n - 1 for n in counts)
    second = [tuple(int(i == axis) for i in range(len(counts))) for axis, n in enumerate(counts) if n > 1]
    total, seen = prod(counts), set[Index]()
    some = (index_of(random.randrange(total), counts) for _ in range(8 * _MANY))
    # A random chunk is among the first few.
    known = [*second[-1:], next(some), *(index.telling if index else ()), last, *second[:-1], first]
    for chunk in (*known, *some):
        if chunk not in seen:
            seen.add(chunk)
            yield chunk


def _run_of(store: Store, chunk: Index, random: Random) -> Box:
    """A contiguous box of elements of a chunk."""
    layout = store.layout
    inside, stored = layout.objects.box(chunk), layout.objects.stored(chunk)
    room = min(_RUN_BYTES, layout.object_bytes // 4 if layout.encoded else _RUN_BYTES)
    left = max(room // layout.itemsize, 1)
    start, stop = list(inside.start), [n + 1 for n in inside.start]
    for axis in reversed(range(layout.ndim)):
        length = min(inside.shape[axis], left)
        start[axis] += random.randint(0, inside.shape[axis] - length)
        stop[axis] = start[axis] + length
        left //= length
        if length < stored.shape[axis]:
            left = min(left, 1)
    return Box(tuple(start), tuple(stop))


def _read(store: Store, chunk: Index, extent: Extent | None, box: Box) -> bytes:
    """The elements of a run as the engine would read them."""
    layout = store.layout
    if extent is None:
        return np.full(box.shape, store.schema.fill_value, layout.dtype).tobytes()
    stored = layout.objects.stored(chunk)
    at = 0
    for begin, first, length in zip(box.start, stored.start, stored.shape, strict=True):
        at = at * length + begin - first
    start, size = at * layout.itemsize, box.size * layout.itemsize
    if not layout.encoded:
        return _bytes_at(store.medium, extent.path, extent.offset + start, size)
    out = np.empty(layout.object_bytes, np.uint8)
    store.decode(_bytes_at(store.medium, extent.path, extent.offset, extent.length or 0), extent, out)
    return out[start : start + size].tobytes()


def _bytes_at(medium: Medium, path: str, offset: int, size: int) -> bytes:
    data = bytearray(size)
    with disk_errors("read", path), medium.reader(path) as handle:
        found = handle.read(memoryview(data), offset)
    if found != size:
        raise CorruptError(f"{path}: {size} bytes at {offset} end after the file")
    return bytes(data)


def _no_index(extent: Extent) -> bytes:
    raise CorruptError(f"{extent.path}: a chunk of HDF5 has no index inside")
