"""Recheck: whether finished boxes still hold the elements that were written, and the source those that were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod

import numpy as np

from reblock.engine.casting import convert
from reblock.engine.digest import sums
from reblock.engine.region import load, unit_bytes
from reblock.engine.view import View
from reblock.engine.watch import Cancelled
from reblock.errors import CorruptError, DiskError, StorageError
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.model import PIECE_BYTES, Index, Layout, Pass, Store, Sums, TransferMode

#: The least number of elements that are read again at a time.
_LEAST_ELEMENTS = 1 << 10


def recheck(
    store: Store,
    sweep: Pass,
    boxes: Sequence[tuple[int, Sums]],
    *,
    memory_bytes: int,
    cancelled: Cancelled = lambda: False,
) -> Iterator[bool]:
    """For each write box of a pass, by number and sums, whether the store holds elements of the same sums.

    A box that cannot be read or decoded counts as lost. KeyboardInterrupt if the check is cancelled.
    """
    # A chunk that is not stored is not finished, even if the format defines it as fill.
    view = View(store, Box.whole(store.layout.shape), tuple(range(store.layout.ndim)), strict=True)
    largest = int(np.prod(sweep.writes.largest, dtype=np.int64)) * store.layout.itemsize

    def holds(box: tuple[int, Sums]) -> bool:
        if cancelled():
            raise KeyboardInterrupt
        where = sweep.writes.box([int(i) for i in np.unravel_index(box[0], sweep.writes.counts)])
        try:
            same = sums(load(view, where, threads=inner), where.start, store.layout.shape) == box[1]
            return same and all(_begins(store, index) for index in store.layout.objects.touching(where))
        except StorageError:
            return False

    # Each box needs its elements and, beside them, a unit that is being decoded for each thread that reads it.
    most_threads = _threads(sweep, store)
    at_once = min(max(memory_bytes // max(2 * largest, 1), 1), most_threads)
    unit = unit_bytes(store.layout, store.reads) or PIECE_BYTES
    inner = max(min(most_threads // at_once, (memory_bytes // at_once - largest) // unit), 1)
    with ThreadPoolExecutor(at_once, "reblock-recheck") as threads:
        yield from threads.map(holds, boxes)


def reread(
    view: View,
    sweep: Pass,
    layout: Layout,
    boxes: Sequence[tuple[int, Sums]],
    *,
    memory_bytes: int,
    cancelled: Cancelled = lambda: False,
) -> Iterator[bool]:
    """For each write box of a pass, by number and sums, whether a source still holds elements of the same sums.

    The pass has written an array of that layout. KeyboardInterrupt if the check is cancelled.
    """
    source, most_threads = view.layout, _threads(sweep, view.store)
    # Elements as they are stored and as they are compared; beside them the whole units that are being decoded.
    per, unit = source.itemsize + layout.itemsize, 0
    if not source.partial_reads:
        unit = source.unit_bytes + source.most_stored_bytes
    threads = max(min(most_threads, memory_bytes // max(prod(sweep.writes.largest) * per + unit, 1)), 1)
    inner = max(min(most_threads // threads, memory_bytes // threads // (2 * max(unit, PIECE_BYTES))), 1)
    most = max((memory_bytes // threads - inner * unit) // per, _LEAST_ELEMENTS)

    def holds(box: tuple[int, Sums]) -> bool:
        if cancelled():
            raise KeyboardInterrupt
        where = sweep.writes.box([int(i) for i in np.unravel_index(box[0], sweep.writes.counts)])
        try:
            return Sums.of(map(sums_of, pieces(where, tuple(range(layout.ndim)), most))) == box[1]
        except CorruptError:
            return False

    def sums_of(part: Box) -> Sums:
        found = load(view, part, threads=inner)
        if found.dtype != layout.dtype:
            made = np.empty(found.shape, layout.dtype)
            convert(found, made, checked=False)
            found = made
        return sums(found, part.start, layout.shape)

    with ThreadPoolExecutor(threads, "reblock-reread") as pool:
        yield from pool.map(holds, boxes)


def _threads(sweep: Pass, store: Store) -> int:
    """Threads that read boxes again: as many as decode units in the pass; a library reads one box at a time."""
    return 1 if sweep.execution is None or store.reads is TransferMode.BOX else sweep.execution.coders


def _begins(store: Store, index: Index) -> bool:
    """Whether an object's own file begins with its preamble, if it has one."""
    before = bytes(store.preamble(index)) if store.writes is TransferMode.EXTENT else b""
    if not before:
        return True
    place = store.place(index)
    found = bytearray(len(before))
    try:
        with store.medium.reader(place.path) as handle:
            handle.read(memoryview(found), place.offset - len(before))
    except (FileNotFoundError, DiskError):
        return False
    return found == before
