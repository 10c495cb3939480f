"""Scatter: loaded elements go to the write boxes they belong to, all boxes of a piece in one call.

The compiled loop (`moves.c`) and numpy do the same; numpy serves where the loop was not built, and where elements
are converted on the way.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from reblock.engine.reading import Loaded
from reblock.engine.writing import Buffer
from reblock.geometry import Box, Grid
from reblock.geometry.axis import Ints
from reblock.model import Access, Index, Layout


@cache
def library() -> ctypes.CDLL | None:
    """The compiled loop, where it was built."""
    path = os.path.join(os.path.dirname(__file__), "libmoves.so")
    try:
        found = ctypes.CDLL(path)
    except OSError:
        return None
    found.reblock_scatter.argtypes = [ctypes.c_int, ctypes.c_int64, *[ctypes.c_void_p] * 11]
    found.reblock_scatter.restype = ctypes.c_int
    return found


class Window(NamedTuple):
    """The write boxes that a piece meets, as the compiled loop wants them."""

    indices: tuple[Index, ...]
    """Their indices, in C order."""
    counts: Ints
    """Per axis how many."""
    cuts: Ints
    """Per axis their bounds."""
    lengths: Ints
    """Per axis the lengths of their buffers."""


class Scatter:
    """Knows the write boxes of one pass."""

    def __init__(self, writes: Grid, target: Layout, access: Access, fill: object, *, compiled: bool = True) -> None:
        self._writes = writes
        self._target = target
        self._stored = target.objects if access is Access.UNITS else None
        self._fill = fill
        self._order = np.array(target.order, np.int64)
        self._library = library() if compiled else None
        self._window = lru_cache(maxsize=64)(self._make_window)

    def window(self, box: Box) -> Window:
        """The write boxes that a box meets; the same object for the same boxes, while it is remembered."""
        ranges = (axis.touching(a, b) for axis, a, b in zip(self._writes.axes, box.start, box.stop, strict=True))
        return self._window(tuple((meets.start, meets.stop) for meets in ranges))

    def __call__(self, loaded: Loaded, window: Window, buffers: Mapping[Index, Buffer]) -> list[tuple[Index, int]]:
        """Copy into the boxes of a window; says which got how many elements."""
        array, wanted = loaded.array, loaded.wanted
        if self._library is None or array is None or array.dtype != self._target.dtype:
            return [(index, buffers[index].take(loaded, self._fill)) for index in window.indices]
        table = np.array([buffers[index].address for index in window.indices], np.uint64)
        place = np.array([array.strides, loaded.box.start, wanted.start, wanted.stop], np.int64)
        copied = np.empty(len(table), np.int64)
        at, row = place.ctypes.data, place.strides[0]
        self._library.reblock_scatter(
            array.ndim,
            array.itemsize,
            array.__array_interface__["data"][0],
            at,
            at + row,
            at + 2 * row,
            at + 3 * row,
            window.counts.ctypes.data,
            window.cuts.ctypes.data,
            window.lengths.ctypes.data,
            self._order.ctypes.data,
            table.ctypes.data,
            copied.ctypes.data,
        )
        return list(zip(window.indices, copied.tolist(), strict=True))

    def _make_window(self, ranges: tuple[tuple[int, int], ...]) -> Window:
        cuts: list[int] = []
        lengths: list[int] = []
        for number, (axis, (first, last)) in enumerate(zip(self._writes.axes, ranges, strict=True)):
            cuts += [axis.start(index) for index in range(first, last + 1)]
            stored = axis if self._stored is None else self._stored.axes[number]
            bounds = [stored.stored(index) for index in range(first, last)]
            lengths += [stop - start for start, stop in bounds]
        return Window(
            tuple(product(*(range(first, last) for first, last in ranges))),
            np.array([last - first for first, last in ranges], np.int64),
            np.array(cuts, np.int64),
            np.array(lengths, np.int64),
        )
