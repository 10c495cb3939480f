"""Reading any region of a view into memory, and comparing two views box by box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from reblock.cost.flight import PIECE_BYTES
from reblock.cost.seeks import traffic
from reblock.engine.buffers import Staging
from reblock.engine.digest import sums
from reblock.engine.disk import Disk
from reblock.engine.reading import full_axes, visits
from reblock.engine.reference import load_visit, require_fill
from reblock.engine.view import Array, View, part
from reblock.engine.writing import fill_element
from reblock.geometry import Box, Grid
from reblock.model import Access, Sums


def load(view: View, box: Box, disk: Disk | None = None) -> Array:
    """The elements of a box as a new array."""
    disk = disk or Disk(view.store.roots)
    layout = view.layout
    out = np.empty(box.shape, layout.dtype)
    full = full_axes(layout, Access.RUNS if layout.partial_reads else Access.UNITS, 0)
    staging = Staging()
    fill = fill_element(view.store)
    for visit in visits(view, box, full, PIECE_BYTES):
        for loaded in load_visit(visit, disk, staging):
            here = part(out, loaded.wanted.within(box))
            if loaded.array is None:
                require_fill(visit)
                here[...] = fill
            else:
                here[...] = part(loaded.array, loaded.wanted.within(loaded.box))
    return out


class Compared(NamedTuple):
    """One box of two views."""

    box: Box
    """Where."""
    same: bool
    """Whether both have the same bits there, byte order apart."""
    one: Sums
    """Digest sums of the first view's elements."""
    two: Sums
    """Digest sums of the second view's elements."""


def compare(one: View, two: View, *, memory_bytes: int) -> Iterator[Compared]:
    """Two views of one shape, box by box, each read once."""
    grid, shape = _cheapest_slabs(one, two, memory_bytes), one.layout.shape
    for index in grid.indices():
        box = grid.box(index)
        left, right = load(one, box), load(two, box)
        yield Compared(box, same_bits(left, right), *(sums(array, box.start, shape) for array in (left, right)))


def _cheapest_slabs(one: View, two: View, memory_bytes: int) -> Grid:
    """Boxes that fit into memory and make both sides read the fewest bytes."""
    shape = one.layout.shape
    limit = max(memory_bytes // (4 * one.layout.itemsize), 1)
    grids = [Grid.whole(shape)]
    if prod(shape) > limit:
        grids = [_slabs(shape, order, limit) for order in permutations(range(len(shape)), min(len(shape), 3))]
    return min(grids, key=lambda grid: sum(traffic(grid, v.layout, Access.UNITS).bytes for v in (one, two)))


def _slabs(shape: tuple[int, ...], order: Sequence[int], limit: int) -> Grid:
    """Boxes of at most `limit` elements, cut along the axes of an order, the first one first."""
    chunk = [max(n, 1) for n in shape]
    for axis in [*order, *(a for a in range(len(shape)) if a not in order)]:
        chunk[axis] = max(min(chunk[axis], limit * chunk[axis] // prod(chunk)), 1)
    return Grid.of(shape, chunk)


def same_bits(one: Array, two: Array) -> bool:
    """Whether two arrays agree in every bit, byte order apart."""
    native = one.dtype.newbyteorder("=")
    if native != two.dtype.newbyteorder("="):
        return False
    left, right = (np.ascontiguousarray(array.astype(native, copy=False)).reshape(-1) for array in (one, two))
    return bool(np.array_equal(left.view(np.uint8), right.view(np.uint8)))
