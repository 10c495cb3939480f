"""Rows: the visits that a read box pays to objects, as a table for the compiled loop.

What `reading.visits` makes one by one is made here for many objects at once: small chunks must not drown in the
interpreter. Raw objects so large that they are read in several pieces stay with `reading`, and so do shards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from reblock.cost.memory import PIECE_BYTES, visit_shape
from reblock.engine import native
from reblock.engine.reading import no_index
from reblock.engine.scatter import Window
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Access, Extent, Index, Layout, Pass, Way

#: Objects whose rows are made together, and how many such groups are remembered.
_BLOCK, _KNOWN = 256, 32


class Files(NamedTuple):
    """Some objects, and where they lie; many read boxes may visit them."""

    objects: list[Index]
    """Their indices in the store's own numbering."""
    names: list[str]
    """Their files."""
    extents: list[Extent | None]
    """Where they lie in those; None where they are not stored."""
    paths: bytes
    """The same for the compiled loop."""
    columns: Ints
    """Per object: no open file, where its name and its bytes start, how many they are (-1 = all to the end of the
    file, where that cannot be known), whether the file ends there."""


class Rows(NamedTuple):
    """Some visits, in plan order."""

    first: int
    """Number of the first one among those of the read box."""
    table: Ints
    """One row per visit: see `moves.c`."""
    files: Files
    """The objects."""
    bytes: int
    """The most that one of them reads."""


def fits(sweep: Pass, source: Layout, way: Way) -> bool:
    """Whether a pass reads objects, each in one piece."""
    if source.indexed or way is Way.BOX:
        return False
    if source.encoded:
        return source.units == source.objects
    part = source.objects.largest_stored
    if sweep.read_access is Access.RUNS:
        part = visit_shape(sweep, source)
    return prod(part) * source.itemsize <= PIECE_BYTES


class Visits:
    """The visits that read boxes pay to the objects of a source."""

    def __init__(self, view: View, full: Collection[int]) -> None:
        """Along the `full` axes objects are read in full."""
        self._view, self._full = view, full
        self._files = lru_cache(maxsize=_KNOWN)(self._find)

    def __call__(self, box: Box) -> Iterator[Rows]:
        """Those of one box, some at a time."""
        layout = self._view.layout
        axes, shape = _axes(layout, box, self._full)
        firsts = tuple(axis.index(x) for axis, x in zip(layout.objects.axes, box.start, strict=True))
        count = prod(shape)
        for first in range(0, count, _BLOCK):
            files = self._files(firsts, shape, first)
            steps = _steps(shape, first)
            bounds = np.stack([columns[step] for columns, step in zip(axes, steps, strict=True)], 1) if shape else None
            table = np.empty((len(files.objects), native.HEAD + 6 * len(shape)), np.int64)
            table[:, : native.HEAD] = files.columns
            most = layout.itemsize
            if bounds is not None:
                table[:, native.HEAD :] = bounds.reshape(len(bounds), -1)
                table[:, 5] = (bounds[:, :, :2] == bounds[:, :, 2:4]).all((1, 2))
                most *= int((bounds[:, :, 3] - bounds[:, :, 2]).prod(1).max())
            yield Rows(first, table, files, most)

    def _find(self, firsts: Index, shape: tuple[int, ...], first: int) -> Files:
        """Where some of the objects lie that a read box meets."""
        view, steps = self._view, _steps(shape, first)
        found = np.stack(steps, 1) + np.array(firsts, np.int64) if shape else np.zeros((1, 0), np.int64)
        sizes = np.ones(len(found), np.int64)
        for axis, low, count, step in zip(view.layout.objects.axes, firsts, shape, steps, strict=True):
            bounds = np.array([axis.stored(index) for index in range(low, low + count)], np.int64)
            sizes *= (bounds[:, 1] - bounds[:, 0])[step]
        objects, extents = view.object_indices(found), view.store.extents
        places = [extents(index, (index,), no_index)[0] for index in objects]
        # An object that is not stored has no name, and a file without a name does not exist either.
        names = ["" if one is None else one.path for one in places]
        columns = np.empty((len(objects), native.HEAD), np.int64)
        paths, columns[:, 1] = native.joined(names)
        columns[:, 0], columns[:, 2] = -1, [0 if one is None else one.offset for one in places]
        columns[:, 3], columns[:, 5] = sizes * view.layout.itemsize, True
        if view.layout.encoded:
            columns[:, 3] = [-1 if one is None or one.length is None else one.length for one in places]
        columns[:, 4] = [one is not None and one.length is None for one in places]
        return Files(objects, names, places, paths, columns)


@lru_cache(maxsize=256)
def _steps(shape: tuple[int, ...], first: int) -> tuple[Ints, ...]:
    """Per axis the positions of some objects among those that a read box meets."""
    return np.unravel_index(np.arange(first, min(first + _BLOCK, prod(shape))), shape) if shape else ()


def _axes(layout: Layout, box: Box, full: Collection[int]) -> tuple[list[Ints], tuple[int, ...]]:
    """Per axis and object: bounds of the object as it is stored, of what is read of it, and of what is wanted."""
    axes = []
    for number, (axis, start, stop) in enumerate(zip(layout.objects.axes, box.start, box.stop, strict=True)):
        rows = []
        for index in axis.touching(start, stop):
            low, high = axis.stored(index)
            wanted = max(low, start), min(high, stop)
            rows.append((low, high, *((low, high) if number in full else wanted), *wanted))
        axes.append(np.array(rows, np.int64).reshape(len(rows), 6))
    return axes, tuple(len(rows) for rows in axes)


def wanted(some: Rows, at: int) -> Box:
    """The elements that a visit is paid for."""
    bounds = some.table[at, native.HEAD :].reshape(-1, 6)
    return Box(tuple(bounds[:, 4].tolist()), tuple(bounds[:, 5].tolist()))


def first_touches(window: Window, layout: Layout, box: Box) -> tuple[list[int], list[int]]:
    """The boxes of a window in the order in which visits touch them first, and the numbers of those visits."""
    touched: Ints = np.zeros((), np.int64)
    for axis, cuts, start, stop in zip(layout.objects.axes, window.cuts, box.start, box.stop, strict=True):
        meets = axis.touching(start, stop)
        steps = np.array([axis.index(max(cut, start)) - meets.start for cut in cuts[:-1]], np.int64)
        touched = np.add.outer(touched * len(meets), steps)
    touched = touched.ravel()
    order = np.argsort(touched, kind="stable")
    return order.tolist(), touched[order].tolist()
