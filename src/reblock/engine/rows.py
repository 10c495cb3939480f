"""Rows: the visits that a read box pays to raw objects, as a table for the compiled loop.

What `reading.visits` makes one by one is made here for many objects at once: small chunks must not drown in the
interpreter. Objects so large that they are read in several pieces stay with `reading`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
from reblock.model import Access, Index, Layout, Pass, Way

#: Objects whose rows are made together.
_BLOCK = 256


class Rows(NamedTuple):
    """Some visits, in plan order."""

    first: int
    """Number of the first one among those of the read box."""
    table: Ints
    """One row per visit: see `moves.c`."""
    objects: list[Index]
    """The objects, in the store's own numbering."""
    names: list[str]
    """Their files."""
    bytes: int
    """The most that one of them reads."""


def fits(sweep: Pass, source: Layout, way: Way) -> bool:
    """Whether a pass reads raw objects, each in one piece."""
    if source.encoded or source.indexed or way is Way.BOX:
        return False
    part = source.objects.largest_stored
    if sweep.read_access is Access.RUNS:
        part = visit_shape(sweep, source)
    return prod(part) * source.itemsize <= PIECE_BYTES


def visits(view: View, box: Box, full: Collection[int]) -> Iterator[Rows]:
    """The visits that one read box pays, some at a time; along the `full` axes objects are read in full."""
    axes, shape = _axes(view.layout, box, full)
    count = prod(shape)
    for first in range(0, count, _BLOCK):
        numbers = np.arange(first, min(first + _BLOCK, count))
        steps = np.unravel_index(numbers, shape) if shape else ()
        table = np.empty((len(numbers), native.HEAD + 6 * len(shape)), np.int64)
        for axis, (columns, step) in enumerate(zip(axes, steps, strict=True)):
            at = native.HEAD + 6 * axis
            table[:, at : at + 6] = columns[step]
        yield _with_files(view, first, table, np.stack(steps, 1) if shape else np.zeros((1, 0), np.int64), box)


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


def _with_files(view: View, first: int, table: Ints, steps: Ints, box: Box) -> Rows:
    """Fill in where the objects lie."""
    layout = view.layout
    firsts = tuple(axis.index(x) for axis, x in zip(layout.objects.axes, box.start, strict=True))
    bounds = table[:, native.HEAD :].reshape(len(table), -1, 6)
    table[:, 0] = -1
    table[:, 3] = (bounds[:, :, 1] - bounds[:, :, 0]).prod(1) * layout.itemsize
    table[:, 5] = (bounds[:, :, 0] == bounds[:, :, 2]).all(1) & (bounds[:, :, 1] == bounds[:, :, 3]).all(1)
    objects = view.object_indices(steps + np.array(firsts, np.int64))
    names, places = [], []
    extents, roots = view.store.extents, view.store.roots
    for index in objects:
        (extent,) = extents(index, (index,), no_index)
        # An object that is not stored has no name, and a file without a name does not exist either.
        name = "" if extent is None else extent.path
        names.append(name if roots is None or not name or roots.allows(name) else roots.resolve(name))
        places.append((0, False) if extent is None else (extent.offset, extent.length is None))
    table[:, [2, 4]] = places
    most = int((bounds[:, :, 3] - bounds[:, :, 2]).prod(1).max()) * layout.itemsize
    return Rows(first, table, objects, names, most)


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
