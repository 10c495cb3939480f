"""Recheck: whether boxes that an earlier attempt has finished still hold what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from reblock.engine.digest import sums
from reblock.engine.region import load
from reblock.engine.view import View
from reblock.engine.watch import Cancelled
from reblock.errors import StorageError
from reblock.geometry import Box
from reblock.model import Index, Pass, Store, Sums, Way


def recheck(
    store: Store,
    sweep: Pass,
    boxes: Sequence[tuple[int, Sums]],
    *,
    memory_bytes: int,
    cancelled: Cancelled = lambda: False,
) -> Iterator[bool]:
    """For each write box of a pass, by number and sums, whether the store holds elements of the same sums.

    What cannot be read or decoded does not count as there. KeyboardInterrupt where that is cancelled.
    """
    # A chunk that is not stored is not a finished one, also where the format would take it as fill.
    view = View(store, Box.whole(store.layout.shape), tuple(range(store.layout.ndim)), strict=True)
    largest = int(np.prod(sweep.writes.largest, dtype=np.int64)) * store.layout.itemsize

    def holds(box: tuple[int, Sums]) -> bool:
        if cancelled():
            raise KeyboardInterrupt
        where = sweep.writes.box([int(i) for i in np.unravel_index(box[0], sweep.writes.counts)])
        try:
            same = sums(load(view, where), where.start, store.layout.shape) == box[1]
            return same and all(_begins(store, index) for index in store.layout.objects.touching(where))
        except StorageError:
            return False

    # A box and the unit that is being decoded beside it.
    at_once = max(memory_bytes // max(2 * largest, 1), 1)
    with ThreadPoolExecutor(min(at_once, os.cpu_count() or 1), "reblock-recheck") as threads:
        yield from threads.map(holds, boxes)


def _begins(store: Store, index: Index) -> bool:
    """Whether an object's own file begins with what comes before its elements, where anything does."""
    before = bytes(store.preamble(index)) if store.writes is Way.EXTENT else b""
    if not before:
        return True
    place = store.place(index)
    try:
        with open(place.path, "rb", buffering=0) as file:
            file.seek(place.offset - len(before))
            return file.read(len(before)) == before
    except OSError:
        return False
