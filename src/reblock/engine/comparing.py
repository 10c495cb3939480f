"""Comparing two arrays box by box: whether every bit is the same, how many elements are not, and the first of those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from reblock.cost.flight import PIECE_BYTES
from reblock.cost.seeks import traffic
from reblock.engine.digest import sums
from reblock.engine.region import LEAST_BYTES, fit, load, too_little, unit_bytes
from reblock.engine.view import Array, View
from reblock.geometry import Box, Grid
from reblock.geometry.axis import Ints
from reblock.model import Access, Index, Layout, Sums
from reblock.units import format_size

#: So many times what reading a unit takes is enough, whatever else there is.
_AMPLE = 4
#: Elements and bytes that are compared at a time.
_MANY_ELEMENTS, _MANY_BYTES = 1 << 14, 1 << 18


@dataclass(frozen=True)
class Side:
    """One of two arrays that are compared."""

    layout: Layout
    """Shape, type, and what it costs to read a box."""
    least_bytes: int
    """Memory that reading a box takes at the least, beside its elements."""
    load: Callable[[Box, int], Array]
    """Reads a box into a new array, with so much memory beside it."""

    @classmethod
    def of(cls, view: View, memory_bytes: int) -> Side:
        """A view, read by the engine."""
        view = fit(view, memory_bytes, ample=_AMPLE)

        def read(box: Box, room: int) -> Array:
            return load(view, box, memory_bytes=room)

        return cls(view.layout, unit_bytes(view.layout, view.store.reads), read)


class Difference(NamedTuple):
    """An element that differs."""

    place: Index
    """Its index along the axes that say what comes first."""
    one: Array
    """What the first array has there, an array of one element: a scalar may not have all bits of it."""
    two: Array
    """What the second one has."""


class Compared(NamedTuple):
    """One box of two arrays."""

    box: Box
    """Where."""
    differing: int
    """Elements that differ in any bit, byte order apart."""
    first: Difference | None
    """The first of them."""
    one: Sums
    """Digest sums of the first array's elements."""
    two: Sums
    """Digest sums of the second array's elements."""


def compare(one: Side, two: Side, *, axes: Sequence[int], memory_bytes: int) -> Iterator[Compared]:
    """Two arrays of one shape and type, box by box, each read once.

    What comes first is told by the C order of `axes`, outermost first.
    """
    shape = one.layout.shape
    taken, limit = _shares(one, two, memory_bytes)
    grid = _cheapest_slabs(one.layout, two.layout, limit)
    for index in grid.indices():
        box = grid.box(index)
        left, right = one.load(box, taken), two.load(box, taken)
        differing, first = _differences(left, right, box, axes)
        totals = [sums(array, box.start, shape) for array in (left, right)]
        # The next boxes take their room.
        del left, right
        yield Compared(box, differing, first, *totals)


def _shares(one: Side, two: Side, memory_bytes: int) -> tuple[int, int]:
    """Bytes that reading may take, and elements of a box: two boxes are held, and one is being read."""
    itemsize = one.layout.itemsize
    memory = max(memory_bytes, LEAST_BYTES)
    least = max(one.least_bytes, two.least_bytes)
    # With boxes that are much smaller than chunks, each chunk would be decoded again and again.
    largest = max(side.layout.unit_bytes * bool(side.least_bytes) for side in (one, two))
    needed = least + min(largest, 2 * one.layout.nbytes)
    if needed > memory:
        raise too_little(f"comparing chunks of {format_size(largest)}", memory_bytes, needed)
    taken = max(least, min(memory // 4, PIECE_BYTES))
    return taken, max((memory - taken) // (2 * itemsize), 1)


def _cheapest_slabs(one: Layout, two: Layout, limit: int) -> Grid:
    """Boxes that fit into memory and make both sides read the fewest bytes."""
    shape = one.shape
    if prod(shape) <= limit:
        return Grid.whole(shape)
    orders = list(permutations(range(len(shape)), min(len(shape), 3)))
    grids = [_slabs(shape, order, limit) for order in orders]
    grids += [_slabs(shape, order, limit, side.units) for order in orders for side in (one, two)]
    return min(grids, key=lambda grid: _price(grid, one) + _price(grid, two))


def _price(grid: Grid, layout: Layout) -> int:
    """Bytes that reading every box of a grid takes."""
    return traffic(grid, layout, Access.RUNS if layout.partial_reads else Access.UNITS).bytes


def _slabs(shape: tuple[int, ...], order: Sequence[int], limit: int, units: Grid | None = None) -> Grid:
    """Boxes of at most `limit` elements, cut along the axes of an order, the first one first.

    With units, cuts lie between them where that leaves anything.
    """
    chunk = [max(n, 1) for n in shape]
    for axis in [*order, *(a for a in range(len(shape)) if a not in order)]:
        wanted = max(min(chunk[axis], limit * chunk[axis] // prod(chunk)), 1)
        step = 1 if units is None else units.axes[axis].largest_stored
        if wanted < chunk[axis]:
            chunk[axis] = wanted // step * step or wanted
    return Grid.of(shape, chunk)


def _differences(one: Array, two: Array, box: Box, axes: Sequence[int]) -> tuple[int, Difference | None]:
    """How many elements of two arrays of one box differ, and the first of them."""
    native = one.dtype.newbyteorder("=")
    left, right = np.ascontiguousarray(one).reshape(-1), np.ascontiguousarray(two).reshape(-1)
    step = max(min(_MANY_BYTES // native.itemsize, _MANY_ELEMENTS), 1)
    count, first = 0, None
    for start in range(0, left.size, step):
        some = [side[start : start + step].astype(native, copy=False) for side in (left, right)]
        bits = [part.view(np.uint8).reshape(part.size, -1) for part in some]
        if np.array_equal(bits[0], bits[1]):
            continue
        places = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
        count += len(places)
        at, place = _first_place(places + start, box, axes)
        if first is None or place < first.place:
            here = slice(places[at], places[at] + 1)
            first = Difference(place, *(part[here].copy() for part in some))
    return count, first


def _first_place(numbers: Ints, box: Box, axes: Sequence[int]) -> tuple[int, Index]:
    """Which of some elements of a box comes first in C order of the axes, and its index along them."""
    if not axes:
        return 0, ()
    indices = np.unravel_index(numbers, box.shape)
    columns = [indices[axis] + box.start[axis] for axis in axes]
    at = int(np.lexsort(columns[::-1])[0])
    return at, tuple(int(column[at]) for column in columns)
