"""Comparison of two arrays box by box: how many elements differ in any bit, and which is the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reblock.engine.digest import sums
from reblock.engine.region import fit, load, unit_bytes
from reblock.engine.view import Array, View
from reblock.geometry import Box, Grid
from reblock.geometry.axis import Ints
from reblock.model import Index, Layout, Sums

#: If this many units fit into the budget, their stored sizes are not looked up.
_AMPLE = 4
#: Elements and bytes that are compared at a time.
_MANY_ELEMENTS, _MANY_BYTES = 1 << 14, 1 << 18


@dataclass(frozen=True)
class ComparedArray:
    """One of two arrays that are compared."""

    layout: Layout
    """Shape and type, and the cost of reading a box."""
    least_bytes: int
    """The least memory that reading a box takes, beside its elements."""
    load: Callable[[Box, int], Array]
    """Reads a box into a new array; its second argument is the memory that reading may take beside that."""

    @classmethod
    def of(cls, view: View, memory_bytes: int, threads: int) -> ComparedArray:
        """A view, read by the engine with several threads."""
        view = fit(view, memory_bytes, ample=_AMPLE)

        def read(box: Box, room: int) -> Array:
            return load(view, box, memory_bytes=room, threads=threads)

        return cls(view.layout, unit_bytes(view.layout, view.store.reads), read)


class DifferingElement(NamedTuple):
    """An element that differs."""

    place: Index
    """Its index along the axes that define the order."""
    one: Array
    """The element of the first array, as an array of one element: a scalar may not hold all its bits."""
    two: Array
    """The element of the second array, likewise."""


class Compared(NamedTuple):
    """One box of two arrays."""

    box: Box
    """The box."""
    differing: int
    """Elements that differ in any bit, byte order apart."""
    first: DifferingElement | None
    """The first of them."""
    one: Sums
    """Digest sums of the first array's elements."""
    two: Sums
    """Digest sums of the second array's elements."""


def compare(
    one: ComparedArray,
    two: ComparedArray,
    boxes: Grid,
    *,
    axes: Sequence[int],
    reading_bytes: int,
    numbers: range | None = None,
) -> Iterator[Compared]:
    """Compare two arrays of one shape and type; each is read once, one box of a grid after the other.

    Only the boxes with some `numbers` are compared if these are given. Reading may take `reading_bytes` beside the
    elements of a box. The first difference is the first one in C order of `axes`, outermost first.
    """
    shape = one.layout.shape
    with ThreadPoolExecutor(2, "reblock-compare") as threads:
        for index in boxes.indices() if numbers is None else map(boxes.index, numbers):
            box = boxes.box(index)
            left, right = one.load(box, reading_bytes), two.load(box, reading_bytes)
            totals = [threads.submit(sums, array, box.start, shape) for array in (left, right)]
            differing, first = _differences(left, right, box, axes)
            compared = Compared(box, differing, first, *(total.result() for total in totals))
            # The next boxes take their memory.
            del left, right, totals
            yield compared


def _differences(one: Array, two: Array, box: Box, axes: Sequence[int]) -> tuple[int, DifferingElement | None]:
    """The number of elements that differ between two arrays of one box, and the first of them."""
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
            first = DifferingElement(place, *(part[here].copy() for part in some))
    return count, first


def _first_place(numbers: Ints, box: Box, axes: Sequence[int]) -> tuple[int, Index]:
    """The position of the element that comes first in C order of the axes, and its index along them."""
    if not axes:
        return 0, ()
    indices = np.unravel_index(numbers, box.shape)
    columns = [indices[axis] + box.start[axis] for axis in axes]
    at = int(np.lexsort(columns[::-1])[0])
    return at, tuple(int(column[at]) for column in columns)
